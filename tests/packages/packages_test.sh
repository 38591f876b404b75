#!/usr/bin/env bash
# The packages of build/packages in a system that has never seen SiMM: a chroot of this machine's
# distribution, from the mirror that apt uses here. inside.sh is what happens in it.
#
#   packages_test.sh
#
# Needs root (or sudo) and the network. The bare system is kept as build/chroot-SUITE.tar.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/packages/bare_root.sh
. tests/packages/bare_root.sh
enter_namespace tests/packages/packages_test.sh "$@"
make_root chroot 3072 --variant=apt
cp /etc/resolv.conf "$root/etc/resolv.conf"

step "what the next version will be"
mkdir "$root/packages" "$root/next"
cp build/packages/*.deb "$root/packages"
# The same packages with a higher revision and another storage.json.
for package in build/packages/*.deb; do
  dpkg-deb -R "$package" "$root/next/tree"
  sed -i -E '/^(Version|Depends):/ s/([0-9.]+)-1\b/\1-2/' "$root/next/tree/DEBIAN/control"
  if [ -e "$root/next/tree/etc/simm/storage.json" ]; then
    echo "// Of the next version." >>"$root/next/tree/etc/simm/storage.json"
    (cd "$root/next/tree" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' |
      xargs -0 md5sum >DEBIAN/md5sums)
  fi
  dpkg-deb -Znone -b "$root/next/tree" "$root/next" >/dev/null
  rm -rf "$root/next/tree"
done

step "examples, compiled with what libsimm-dev has"
dev=$root/dev/shm/simm-dev
for package in build/packages/libsimm{0,-dev}_*.deb; do dpkg-deb -x "$package" "$dev"; done
pc=$(dirname "$(find "$dev" -name simm.pc)")
examples=$dev/usr/share/doc/simm/libclient/examples
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs simm)
# shellcheck disable=SC2086  # flags are words
{
  cc -std=c99 "$examples/hello.c" -o "$root/packages/hello_c" $flags
  c++ -std=c++20 "$examples/hello.cpp" -o "$root/packages/hello_cpp" $flags
}

step "in the chroot"
cp tests/packages/inside.sh tests/packages/hello.py "$root/packages/"
python=
ls build/packages/python3-simm_*.deb >/dev/null 2>&1 && python=1
in_root DEBIAN_FRONTEND=noninteractive SIMM_HAS_PYTHON="$python" \
  bash /packages/inside.sh "$(sed -n 's/.*SIMM_VERSION_STRING "\(.*\)".*/\1/p' \
    ipc/include/simm/version.h)"
step "passed"
