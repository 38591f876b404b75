#!/bin/busybox sh
# The first process of a guest (scripts/rdma-guest.sh): puts a file system in memory over the host's
# read-only one, and goes on there, with the command or with systemd.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in $(cat /modules/list); do insmod "/modules/$module"; done
# Nobody changes the host's files while a test runs, so the guest may keep what it has read.
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 hostroot /host
mount -t tmpfs tmpfs /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /root
mkdir -p /root/etc/simm-guest
cp /guest/* /root/etc/simm-guest/
for directory in run tmp; do mount -t tmpfs tmpfs "/root/$directory"; done
# What the command needs of directories that are hidden by that.
while read -r directory; do
  case $directory in /tmp/* | /run/*)
    mkdir -p "/root$directory"
    mount -o bind "/host$directory" "/root$directory"
    ;;
  esac
done </guest/needed
for directory in dev proc sys; do mount -o move "/$directory" "/root/$directory"; done
if [ "$(cat /guest/mode)" = systemd ]; then
  chroot /root /bin/bash /etc/simm-guest/prepare_systemd.sh
  exec switch_root /root /lib/systemd/systemd
fi
exec switch_root /root /bin/bash /etc/simm-guest/run.sh
