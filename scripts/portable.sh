#!/usr/bin/env bash
# Makes what runs on every x86-64 host with the C library of Ubuntu 22.04 or a newer one, and needs
# nothing else of it: an archive of programs, libsimm and documents, and a wheel.
# scripts/PACKAGES.md says what is in them.
#
#   scripts/portable.sh [FOLDER]
#
# Leaves simm-VERSION-linux-x86_64.tar.xz and simm-VERSION-*.whl in FOLDER (build/portable), which
# holds nothing else then.
# SIMM_PYTHON (/usr/bin/python3) is the interpreter that the wheel is for; it needs pip, setuptools,
# wheel and pybind11. SIMM_JOBS (all CPUs) bounds parallel compilation. The sources of two libraries
# come from the mirror that apt uses here, once: scripts/portable.cmake says why.
# Status 77: the mirror does not have them.
# The same commit gives the same bytes: all times are those of the last commit (SOURCE_DATE_EPOCH).
set -euo pipefail
cd "$(dirname "$0")/.."
readonly python=${SIMM_PYTHON:-/usr/bin/python3}
readonly prefix=/opt/simm  # what units and configuration name
readonly out=${1:-build/portable}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=gcno_cwd
umask 022
[ "$(uname -m)" = x86_64 ] || { echo "portable: SKIPPED: for x86-64 only" >&2; exit 77; }
scripts/install_packages.sh
version=$(sed -n 's/.*SIMM_VERSION_STRING "\(.*\)".*/\1/p' ipc/include/simm/version.h)
tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
build=$PWD/build/$(basename "$out")-$tag
mkdir -p build/portable-source
work=$(mktemp -d -p "$PWD/build")
trap 'rm -rf "$work"' EXIT

# quietly COMMAND...: prints what it says only when it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
# from_mirror COMMAND...: the same for apt.
from_mirror() {
  "$@" >"$work/log" 2>&1 && return
  cat "$work/log" >&2
  echo "portable: SKIPPED: apt gets no sources: give its mirror a deb-src, or a network" >&2
  exit 77
}

# source_of PACKAGE: sets `source` to the folder with what the installed package was made of. apt's
# own lists have no sources: these are apart.
source_of() {
  local name
  name=$(dpkg-query -W -f='${source:Package}' "$1")
  source=$PWD/build/portable-source/$name-$(dpkg-query -W -f='${source:Version}' "$1")
  [ ! -e "$source" ] || return 0
  local apt=(apt-get -q -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root
    -o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::State::lists=$work/lists"
    -o "Dir::Cache=$work/cache")
  if [ ! -e "$work/sources.list" ]; then
    mkdir -p "$work/lists/partial" "$work/cache"
    scripts/debian_sources.sh | sed 's/^deb /deb-src /' >"$work/sources.list"
    from_mirror "${apt[@]}" update
  fi
  mkdir "$work/$name"
  cd "$work/$name"
  from_mirror "${apt[@]}" source "$name=${source##*/"$name"-}"
  cd - >/dev/null
  mv "$work/$name"/*/ "$source"
}
source_of libcapnp-dev
kj=$(dirname "$(dirname "$(find "$source" -path '*/kj/exception.c++')")")
source_of libxxhash-dev
pybind11=$("$python" -m pybind11 --cmakedir 2>/dev/null || true)
# As the preset `release`, so that the compiler cache has the objects.
quietly cmake -S . -B "$build" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1" -DCMAKE_UNITY_BUILD=ON \
  -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DBUILD_TESTING=OFF -DSIMM_PORTABLE=ON \
  -DCMAKE_INSTALL_LIBDIR:STRING=lib -DSIMM_KJ_SOURCE="$kj" -DSIMM_XXHASH_SOURCE="$source" \
  -DSIMM_PYTHON="$python" ${pybind11:+-Dpybind11_DIR="$pybind11"}
cmake --build "$build" -j "${SIMM_JOBS:-$(nproc)}" --target installed | tail -1

name=simm-$version-linux-x86_64
for component in daemon library development; do
  DESTDIR=$work/root quietly cmake --install "$build" --prefix "$prefix" --strip \
    --component "$component"
done
mv "$work/root$prefix" "$work/$name"
mkdir "$work/out"
cp LICENSE "$work/$name/share/doc/simm/"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
  --mode='u+rw,go+r,go-w' -C "$work" -cf - "$name" | xz -T1 -6 >"$work/out/$name.tar.xz"

# The version of the C library that the wheel's name promises is the highest that anything asks for.
glibc=$(objdump -T "$work/$name"/bin/{simmd,simmctl,simm-bench} "$work/$name/lib/libsimm.so" \
  "$build"/python/simm/_native.*.so | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
platform=manylinux_${glibc#GLIBC_}
export SIMM_WHEEL_PLATFORM=${platform/./_}_x86_64 SIMM_BUILD_DIR=$build
rm -rf "build/wheel-$SIMM_WHEEL_PLATFORM"
quietly "$python" -m pip wheel --disable-pip-version-check --no-index --no-build-isolation \
  --no-deps -w "$work/out" python/
rm -rf "$out"
mv "$work/out" "$out"
ls -s --block-size=K "$out"/*
