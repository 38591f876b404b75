# In the guest: four soft RoCE devices at the ends of two cables, as two hosts with two rails each.
#
#   rail A: rxe0 at 10.77.0.1 -- rxe1 at 10.77.0.2
#   rail B: rxe2 at 10.77.1.1 -- rxe3 at 10.77.1.2
#
# A daemon on rxe0 and rxe2 reaches another on rxe1 and rxe3. Network namespaces do not carry soft
# RoCE on this kernel: all ends are of one host, and rules force the packets between the addresses
# of a cable over it. `ip link set veth0 down` pulls one out.
set -e
modprobe -a veth crc32_generic rdma_rxe ib_uverbs rdma_ucm

# Packets from the address of device veth$1 to $2 leave by it, from $3.
force_over_cable() {
  ip route add "$2" dev "veth$1" src "$3" table "$((101 + $1))"
  ip rule add pref 10 iif lo to "$2" lookup "$((101 + $1))"
}

for rail in 0 1; do
  one=$((2 * rail)) other=$((2 * rail + 1)) network=10.77.$rail
  ip link add "veth$one" type veth peer name "veth$other"
  ip address add "$network.1/24" dev "veth$one"
  ip address add "$network.2/24" dev "veth$other"
  ip link set "veth$one" mtu 9000 up
  ip link set "veth$other" mtu 9000 up
done
for name in all default veth0 veth1 veth2 veth3; do
  sysctl -qw "net.ipv4.conf.$name.accept_local=1" "net.ipv4.conf.$name.rp_filter=0"
done
ip rule add pref 100 lookup local
ip rule del pref 0
for rail in 0 1; do
  one=$((2 * rail)) other=$((2 * rail + 1)) network=10.77.$rail
  force_over_cable $one "$network.2" "$network.1"
  force_over_cable $other "$network.1" "$network.2"
  rdma link add "rxe$one" type rxe netdev "veth$one"
  rdma link add "rxe$other" type rxe netdev "veth$other"
done
