#!/usr/bin/env bash
# Installs the build to a prefix, moves that tree elsewhere, builds the examples from there as a
# user would (pkg-config, find_package), and runs them against the installed daemon. Then installs
# below a DESTDIR with prefix /usr, and looks at the places and paths.
#
#   install_tree.sh CMAKE BUILD_DIRECTORY LIBDIR VERSION
set -euo pipefail
cmake=$1 build=$2 libdir=$3 version=$4
sources=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d /tmp/simm-install.XXXXXX)
daemon=
finish() {
  [ -z "$daemon" ] || { kill -TERM "$daemon" && wait "$daemon"; } 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
fail() {
  echo "install_tree: $1" >&2
  exit 1
}
expect() { # WHAT EXPECTED ACTUAL
  [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}
has() { [ -e "$1" ] || fail "not installed: $1"; }

# --- a prefix that has moved since
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
prefix=$work/moved
expect "version of simmd" "simmd $version" "$("$prefix/bin/simmd" --version)"
needed=$(objdump -p "$prefix/bin/simmctl" | awk '/NEEDED.*libsimm/ { print $2 }')
expect "SONAME that simmctl needs" libsimm.so.0 "$needed"
# Units and configuration name their prefix: check_system looks at those.
! grep -rlF --exclude-dir={systemd,sysusers.d,tmpfiles.d,etc} "$work/first" "$prefix" ||
  fail "the files above name the prefix that is gone"
[ -z "$(find "$prefix" -name '*.a')" ] || fail "an internal library is installed"

export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
expect "version of simm.pc" "$version" "$(pkg-config --modversion simm)"
flags=$(pkg-config --cflags --libs simm)
strict=(-Wall -Wextra -pedantic -Werror)
rpath=-Wl,-rpath,$prefix/$libdir
examples=$prefix/share/doc/simm/libclient/examples
# shellcheck disable=SC2086  # flags are words
{
  "${CXX:-c++}" -std=c++20 "${strict[@]}" "$examples/hello.cpp" -o "$work/cpp_pc" $flags "$rpath"
  "${CC:-cc}" -std=c99 "${strict[@]}" "$examples/hello.c" -o "$work/c_pc" $flags "$rpath"
  # Each public header compiles alone, from what is installed and nothing else.
  for header in "$prefix"/include/simm/*.h; do
    echo "#include <simm/$(basename "$header")>" |
      "${CXX:-c++}" -std=c++20 "${strict[@]}" -x c++ -fsyntax-only $flags - ||
      fail "$header does not compile alone"
  done
}

# project LANGUAGE SUFFIX VERSION: a project of a user; prints what cmake says.
project() {
  mkdir -p "$work/$1"
  cat >"$work/$1/CMakeLists.txt" <<PROJECT
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES $1)
find_package(simm $3 REQUIRED)
add_executable(hello $examples/hello.$2)
target_link_libraries(hello PRIVATE simm::simm)
PROJECT
  "$cmake" -S "$work/$1" -B "$work/$1/build" -DCMAKE_PREFIX_PATH="$prefix" 2>&1
}
for language in CXX:cpp C:c; do
  said=$(project "${language%:*}" "${language#*:}" "$version") || fail "$said"
  "$cmake" --build "$work/${language%:*}/build" >/dev/null
done
said=$(project CXX cpp 99.0) && fail "find_package took version $version for 99.0"
grep -q "99.0" <<<"$said" || fail "find_package failed for another reason: $said"

export SIMM_SOCKET=$work/run/simm.sock
mkdir "$work/run"
echo "{\"run_directory\": \"$work/run\", \"node\": {\"pool_bytes\": 67108864}}" >"$work/simmd.json"
"$prefix/bin/simmd" all --config "$work/simmd.json" >"$work/log" 2>&1 &
daemon=$!
for _ in $(seq 300); do
  [ -S "$SIMM_SOCKET" ] && break
  sleep 0.1
done
for program in cpp_pc c_pc CXX/build/hello C/build/hello; do
  said=$("$work/$program") || { cat "$work/log"; fail "$program failed: $said"; }
  expect "$program" hello "$(head -1 <<<"$said")"
done
"$prefix/bin/simmctl" --admin "$work/run/admin.sock" status >/dev/null || fail "simmctl status"

# --- as packages have it: prefix /usr below a DESTDIR
DESTDIR=$work/root "$cmake" --install "$build" --prefix /usr >/dev/null
for file in bin/simmd bin/simmctl bin/simm-bench bin/simm-demo "$libdir/libsimm.so.$version" \
  "$libdir/pkgconfig/simm.pc" include/simm/client.h share/simm/simm.schema.json \
  share/doc/simm/README.md share/doc/simm/config/simm-alerts.yml \
  share/doc/simm/config/grafana/provisioning/dashboards/simm.yml; do
  has "$work/root/usr/$file"
done
for file in "$sources"/config/grafana/*.json; do
  has "$work/root/usr/share/simm/grafana/$(basename "$file")"
done
check_system() { # ROOT PREFIX SYSCONFDIR: systemd's files and the configuration
  local root=$1 file name
  for file in "$sources"/systemd/*.{service,socket,slice,target}; do
    name=$(basename "$file")
    has "$root$2/lib/systemd/system/$name"
    [ "$2" = /usr ] || ! grep -nE '/usr/bin/simm|[ =]/etc/simm' \
      "$root$2/lib/systemd/system/$name" || fail "$name: the lines above are of another prefix"
  done
  for file in "$sources"/systemd/*.{sysusers,tmpfiles}; do
    name=$(basename "$file")
    has "$root$2/lib/${name##*.}.d/${name%.*}.conf"
  done
  for file in "$sources"/config/*.json; do
    name=$(basename "$file")
    [ "${name%.schema.json}" != "$name" ] || has "$root$3/simm/$name"
  done
}
shopt -s nullglob
check_system "$work/root" /usr /etc
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
check_system "" "$work/first" "$work/first/etc"
echo "install_tree: passed"
