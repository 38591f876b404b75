#!/usr/bin/env bash
# Both commands of the README on systems that have nothing, in chroots on the disk:
#
#   roots_test.sh SUITE...     of Debian: bookworm, trixie
#
# As root in /root: scripts/demo.sh and scripts/test.sh release. As a user in /home, who may
# not install anything: scripts/demo.sh and scripts/test.sh --quick. What is cloned is the
# last commit. The logs are build/roots/SUITE-*.log; a root that passed is removed.
#
# Needs root and the network. A compiler cache of each suite stays in build/roots.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly self=tests/roots/roots_test.sh

if [ "$(id -u)" != 0 ]; then
  echo "roots: SKIPPED, a chroot needs root" >&2
  exit 0
fi
if [ "${1:-}" != --in-namespace ]; then
  exec unshare --mount --pid --fork --kill-child "$self" --in-namespace "$@"
fi
shift

step() { printf 'roots: %s: %s (%d s)\n' "$suite" "$1" "$SECONDS"; }

# inside NAME USER DIRECTORY COMMAND...: in the root, with a log of its own.
inside() {
  local log=build/roots/$suite-$1.log status=0
  # shellcheck disable=SC2016  # the inner shell expands them
  chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LC_ALL=C.UTF-8 CCACHE_DIR=/var/cache/ccache CCACHE_UMASK=000 \
    su -w LC_ALL,CCACHE_DIR,CCACHE_UMASK "$2" -s /bin/bash -c 'cd "$0" && "$@"' -- \
    "$3" "${@:4}" >"$log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then
    tail -40 "$log" >&2
    echo "roots: $suite: FAILED: $1 ended with $status, see $log" >&2
  fi
  return "$status"
}

in_suite() {
  local base=build/roots/$suite.tar cache=build/roots/$suite.ccache
  root=build/roots/$suite
  rm -rf --one-file-system "$root"
  mkdir -p "$root" "$cache"
  if [ ! -e "$base" ]; then
    step "a bare system"
    mmdebstrap --quiet --format=tar --variant=apt --include=git,ca-certificates \
      --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io "$suite" "$base.new" \
      http://deb.debian.org/debian
    mv "$base.new" "$base"
  fi
  tar -C "$root" -xf "$base" --exclude='./dev/*'
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mkdir "$root/dev/shm"
  mount -t tmpfs tmpfs "$root/dev/shm"
  ln -s /proc/self/fd "$root/dev/fd"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mkdir -p "$root/var/cache/ccache"
  mount --bind "$cache" "$root/var/cache/ccache"
  chmod 777 "$cache"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  git clone --quiet --no-local . "$root/root/simm"
  step "demo as root"
  inside demo root /root/simm scripts/demo.sh || return 1
  step "tests as root"
  inside tests root /root/simm scripts/test.sh release || return 1
  chroot "$root" useradd --create-home --shell /bin/bash somebody
  git clone --quiet --no-local . "$root/home/somebody/simm"
  chroot "$root" chown -R somebody: /home/somebody
  step "demo as a user"
  inside user-demo somebody /home/somebody/simm scripts/demo.sh || return 1
  step "tests as a user"
  inside user-tests somebody /home/somebody/simm scripts/test.sh --quick || return 1
  step "passed"
  umount -R "$root/proc" "$root/sys" "$root/dev" "$root/var/cache/ccache"
  rm -rf --one-file-system "$root"
}

failures=0
for suite in "$@"; do in_suite || failures=$((failures + 1)); done
[ "$failures" = 0 ]
