# Sourced by the tests of this folder: a bare system of this machine's distribution, from the mirror
# that apt uses here, in a tmpfs of a mount namespace, so that nothing of it is left behind. The
# system itself is kept as an archive below build/: delete that file for a newer one.
# shellcheck shell=bash
step() { printf 'packages: %s (%d s)\n' "$1" "$SECONDS"; }

# Goes on as root, in namespaces of mounts and processes that end with this script. Needs root or
# sudo, else it says that the test is skipped.
enter_namespace() { # SCRIPT ARGUMENT...
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || {
      echo "packages: SKIPPED, a chroot needs root" >&2
      exit 0
    }
    exec sudo -n "$@"
  fi
  if [ "${SIMM_IN_NAMESPACE:-}" != "$1" ]; then
    SIMM_IN_NAMESPACE=$1 exec unshare --mount --pid --fork --kill-child "$@"
  fi
}

# Sets `root`. KIND names the archive, the options say what is in it.
make_root() { # KIND MEMORY_MIB MMDEBSTRAP_OPTION...
  # shellcheck disable=SC1091
  local suite base device
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  base=build/$1-$suite.tar
  root=build/chroot
  mkdir -p "$root"
  mount -t tmpfs -o "size=$2m,mode=755" tmpfs "$root"
  if [ ! -e "$base" ]; then
    step "a bare $suite"
    mkdir "$root/tmp"
    TMPDIR=$PWD/$root/tmp mmdebstrap --quiet --format=tar "${@:3}" \
      --aptopt='Acquire::Languages "none"' \
      --dpkgopt=force-unsafe-io "$suite" "$base.new" - < <(scripts/debian_sources.sh)
    rm -rf "$root/tmp"
    mv "$base.new" "$base"
  fi
  tar -C "$root" -xf "$base" --exclude='./dev/*'
  # The system's own devices, without its disks. In a /dev that all may write to, a user may not
  # open a device of another one for writing: apt could not even write to /dev/null.
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mkdir "$root/dev/shm"
  mount -t proc proc "$root/proc"
}

in_root() { # COMMAND...
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root "$@"
}
