#!/usr/bin/env bash
# What scripts/portable.sh has made, in a system that has no library besides the C library: no C++
# runtime, no libcapnp, no libnuma, no libibverbs. It has Python, and what any system has.
# portable_inside.sh is what happens in it; portable_files.py looks at the files before.
#
#   portable_test.sh
#
# Takes build/portable, and build/portable-again, which has to be the same, byte for byte. Needs
# root (or sudo) and the network. The bare system is kept as build/chroot-python-SUITE.tar.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/packages/bare_root.sh
. tests/packages/bare_root.sh
enter_namespace tests/packages/portable_test.sh "$@"
fail() {
  echo "portable: $1" >&2
  exit 1
}
wheel=$(echo build/portable/simm-*.whl)
version=$(sed -n 's/.*SIMM_VERSION_STRING "\(.*\)".*/\1/p' ipc/include/simm/version.h)
archive=build/portable/simm-$version-linux-x86_64.tar.xz

step "made twice, the same"
diff -rq build/portable build/portable-again || fail "two runs differ"

make_root chroot-python 2048 --variant=essential --include=python3
step "the files"
place=$root/srv/moved  # not where the units expect it
mkdir -p "$place" "$root/packages"
tar -C "$place" -xf "$archive" --strip-components=1
# pip checks whether the wheel's name fits a host.
python3=/usr/bin/python3
"$python3" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-index \
  --no-deps --no-compile --target "$root/packages/python" "$wheel" || fail "pip refuses $wheel"
"$python3" tests/packages/portable_files.py "$place" "$root/packages/python" \
  "$(basename "$wheel")" build/release/bin/simmd

step "programs compiled with what the archive has"
examples=$place/share/doc/simm/libclient/examples
flags=$(PKG_CONFIG_PATH=$place/lib/pkgconfig pkg-config --cflags --libs simm)
# shellcheck disable=SC2086  # flags are words
{
  cc -std=c99 "$examples/hello.c" -o "$root/packages/hello_c" $flags -Wl,-rpath,/srv/moved/lib
  # With the C++ runtime of this system, beside the one inside libsimm.
  c++ -std=c++20 "$examples/hello.cpp" -o "$root/hello_cpp" $flags \
    -Wl,-rpath,"$PWD/$place/lib"
  c++ -std=c++20 tests/packages/two_runtimes.cpp -o "$root/two_runtimes" $flags \
    -Wl,-rpath,"$PWD/$place/lib"
  # A libibverbs that is none.
  mkdir "$root/packages/old"
  echo 'int ibv_get_device_list;' | cc -shared -x c - -o "$root/packages/old/libibverbs.so.1"
}

step "two C++ runtimes in one process"
mkdir "$root/run2"
echo '{"run_directory": "'"$PWD/$root/run2"'", "node": {"pool_bytes": 67108864}}' >"$root/two.json"
"$place/bin/simmd" all --config "$root/two.json" >"$root/two.log" 2>&1 &
daemon=$!
for _ in $(seq 600); do
  [ -S "$root/run2/simm.sock" ] && break
  sleep 0.1
done
for program in hello_cpp two_runtimes; do
  objdump -p "$root/$program" | grep -q 'NEEDED.*libstdc++' || fail "$program has no runtime"
  said=$(SIMM_SOCKET=$root/run2/simm.sock "$root/$program") ||
    { cat "$root/two.log"; fail "$program: $said"; }
done
kill -TERM "$daemon"
wait "$daemon" || fail "simmd ended with $?: $(cat "$root/two.log")"

step "in the bare system"
cp tests/packages/portable_{inside.sh,use.py} "$root/packages/"
in_root bash /packages/portable_inside.sh "$version" /srv/moved
step "passed"
