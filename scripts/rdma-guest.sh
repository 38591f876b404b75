#!/usr/bin/env bash
# Runs a command as root in a guest that has what this machine may lack: RDMA devices (soft RoCE, so
# real verbs), two NUMA nodes, or a systemd that is in charge. Ends with the command's exit status.
#
#   scripts/rdma-guest.sh COMMAND...            devices rxe0 to rxe3 (scripts/guest/soft_roce.sh)
#   scripts/rdma-guest.sh --systemd COMMAND...  systemd as process 1, no RDMA devices
#
# The guest sees the whole file system of this machine, read-only, and keeps what it writes in
# memory: it runs what was built here, with the libraries that are here, in the same directory.
# /tmp, /run and /dev/shm are its own, but for this tree if it lies there. Its kernel is Debian's,
# downloaded and unpacked; nothing is installed. QEMU emulates (no KVM), so it boots in half a
# minute, and figures seen in it mean nothing.
#
#   SIMM_GUEST_SECONDS (300)             when it is ended by force, with exit status 124
#   SIMM_GUEST_CACHE                     where the kernel is kept (~/.cache/simm-guest)
#   SIMM_GUEST_ACCEL (tcg,thread=multi)  kvm where the kernel boots with it
set -euo pipefail
readonly here=$(cd "$(dirname "$0")" && pwd)
readonly cache=${SIMM_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/simm-guest}
readonly memory_mib=3072

mode=rdma
if [ "${1:-}" = --systemd ]; then mode=systemd; shift; fi
[ $# -gt 0 ] || { echo "usage: scripts/rdma-guest.sh [--systemd] COMMAND..." >&2; exit 2; }

# Downloads and unpacks the kernel package that the distribution has now; prints its directory.
fetch_kernel() {
  local package part
  package=$(apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9]\S*\)$/\1/p' | head -1)
  [ -n "$package" ] || return 1
  part=$cache/$package.part
  if [ ! -e "$cache/$package/ready" ]; then
    rm -rf "$part" && mkdir -p "$part" && cd "$part" &&
      apt-get download -q "$package" >/dev/null 2>&1 && dpkg -x ./*.deb . && rm ./*.deb &&
      depmod -b . "${package#linux-image-}" && touch ready && rm -rf "${cache:?}/$package" &&
      mv "$part" "$cache/$package" || return 1
  fi
  echo "$cache/$package"
}

# The same; with new package lists where the old ones do not help, and with an older kernel that is
# there already where nothing can be downloaded.
kernel_directory() {
  local older
  (fetch_kernel) && return
  apt-get update -q >/dev/null 2>&1
  (fetch_kernel) && return
  older=$(ls -d "$cache"/linux-image-*/ready 2>/dev/null | tail -1)
  [ -n "$older" ] && dirname "$older" && return
  echo "rdma-guest.sh: 'apt-get download linux-image-...-amd64' fails, and $cache has none" >&2
  return 1
}

# An initial file system: busybox, what finds and mounts the host's, and the command.
make_initramfs() {
  local kernel=$1 directory=$2 version=$3 module
  shift 3
  mkdir -p "$directory"/{bin,proc,sys,dev,host,memory,root,modules,guest}
  cp "$(command -v busybox)" "$directory/bin/busybox"
  cp "$here/guest/init.sh" "$directory/init"
  chmod +x "$directory/init"
  for module in virtio_pci 9pnet_virtio 9p overlay; do
    modprobe --show-depends -d "$kernel" -S "$version" "$module"
  done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' >"$directory/list"
  xargs -a "$directory/list" cp -t "$directory/modules"
  xargs -a "$directory/list" -n 1 basename >"$directory/modules/list"
  rm "$directory/list"
  cp "$here"/guest/*.sh "$directory/guest/"
  printf '%s\n' "$mode" >"$directory/guest/mode"
  printf '%s\n' "$kernel/lib/modules" >"$directory/guest/modules"
  printf '%s\n' "$PWD" "${here%/*}" "$kernel" >"$directory/guest/needed"
  { printf 'cd %q || exit 125\n' "$PWD"; printf '%q ' "$@"; } >"$directory/guest/command"
  (cd "$directory" && find . | cpio -o -H newc --quiet) >"$directory.cpio"
}

work=$(mktemp -d /tmp/simm-guest.XXXXXX)
trap 'rm -rf "$work"' EXIT
kernel=$(kernel_directory)
version=$(basename "$kernel"/lib/modules/*)
make_initramfs "$kernel" "$work/initramfs" "$version" "$@"

# An emulated counter is as good as any clock, and is read without a system call.
kernel_options="console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off"
kernel_options+=" tsc=reliable clocksource=tsc systemd.unit=simm-guest.target"
# Three serial lines: what the kernel says, what the command says, and how it ended.
status=0
timeout --foreground -k 5 "${SIMM_GUEST_SECONDS:-300}" qemu-system-x86_64 \
  -accel "${SIMM_GUEST_ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m $memory_mib \
  -object memory-backend-ram,id=m0,size=$((memory_mib / 2))M \
  -object memory-backend-ram,id=m1,size=$((memory_mib / 2))M \
  -numa node,nodeid=0,memdev=m0,cpus=0 -numa node,nodeid=1,memdev=m1,cpus=1 \
  -nodefaults -no-user-config -display none -no-reboot \
  -serial "file:$work/console" -serial stdio -serial "file:$work/status" \
  -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initramfs.cpio" \
  -append "$kernel_options" \
  -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap \
  </dev/null || status=$?
if [ ! -s "$work/status" ]; then
  [ "$status" = 124 ] || status=125
  echo "rdma-guest.sh: the command did not end (status $status); the last words of the kernel:" >&2
  tail -20 "$work/console" >&2
  exit "$status"
fi
exit "$(cat "$work/status")"
