#!/bin/bash
# In the guest: runs the command on the second serial line, tells its exit status on the third, and
# switches the machine off. As process 1, or as a service of systemd.
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
stty -F /dev/ttyS1 raw
stty -F /dev/ttyS2 raw
exec </dev/null >/dev/ttyS1 2>&1
mkdir -p /lib/modules
mount --bind "$(cat /etc/simm-guest/modules)" /lib/modules
ip link set lo up
prepared=0
if [ "$(cat /etc/simm-guest/mode)" = rdma ]; then
  mkdir -p /dev/shm
  mount -t tmpfs tmpfs /dev/shm
  bash /etc/simm-guest/soft_roce.sh || prepared=1
fi
status=125
[ "$prepared" = 0 ] && { bash /etc/simm-guest/command; status=$?; }
echo "$status" >/dev/ttyS2
sleep 0.2
busybox poweroff -f
