# In the guest, before systemd: its own /etc on top of the host's. What this machine starts at boot
# is none of a test's business, and what only real machines need takes a minute in an emulation.
set -e
# systemd would take the guest for a container, and ignore the kernel's command line.
rm -f /.dockerenv
: >/etc/fstab
rm -rf /etc/systemd/system /etc/systemd/system.conf.d
mkdir -p /etc/systemd/system
printf '%032x\n' 1 >/etc/machine-id
# udev: all devices are there (devtmpfs). The rest: databases of this machine, time, terminals.
for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
  systemd-udev-trigger.service systemd-hwdb-update.service systemd-journal-flush.service \
  systemd-journal-catalog-update.service systemd-update-done.service systemd-update-utmp.service \
  systemd-timesyncd.service systemd-random-seed.service systemd-binfmt.service ldconfig.service \
  systemd-modules-load.service kmod-static-nodes.service systemd-pstore.service \
  systemd-machine-id-commit.service systemd-firstboot.service systemd-boot-system-token.service \
  systemd-remount-fs.service modprobe@.service proc-sys-fs-binfmt_misc.automount \
  dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
  sys-kernel-config.mount sys-fs-fuse-connections.mount cryptsetup.target getty.target \
  timers.target; do
  ln -s /dev/null "/etc/systemd/system/$unit"
done
mkdir -p /etc/systemd/system-generators
for generator in /lib/systemd/system-generators/*; do
  ln -sf /dev/null "/etc/systemd/system-generators/$(basename "$generator")"
done
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >/etc/systemd/journald.conf.d/guest.conf
cat >/etc/systemd/system/simm-guest.service <<'UNIT'
[Unit]
Description=The command of rdma-guest.sh
DefaultDependencies=no
After=basic.target
[Service]
ExecStart=/bin/bash /etc/simm-guest/run.sh
StandardInput=null
UNIT
cat >/etc/systemd/system/simm-guest.target <<'UNIT'
[Unit]
Requires=basic.target
Wants=simm-guest.service
UNIT
