# In the guest: two soft RoCE devices, rxe0 at 10.77.0.1 and rxe1 at 10.77.0.2, at the two ends of a
# cable. Network namespaces do not carry soft RoCE on this kernel, so both ends are of one host, and
# rules force the packets between their addresses over the cable.
set -e
modprobe -a veth crc32_generic rdma_rxe ib_uverbs rdma_ucm
ip link add veth0 type veth peer name veth1
for end in 0 1; do
  ip address add "10.77.0.$((end + 1))/24" dev "veth$end"
  ip link set "veth$end" mtu 9000 up
done
for name in all default veth0 veth1; do
  sysctl -qw "net.ipv4.conf.$name.accept_local=1" "net.ipv4.conf.$name.rp_filter=0"
done
ip rule add pref 100 lookup local
ip rule del pref 0
ip route add 10.77.0.2 dev veth0 src 10.77.0.1 table 101
ip route add 10.77.0.1 dev veth1 src 10.77.0.2 table 102
ip rule add pref 10 iif lo to 10.77.0.2 lookup 101
ip rule add pref 10 iif lo to 10.77.0.1 lookup 102
for end in 0 1; do rdma link add "rxe$end" type rxe netdev "veth$end"; done
