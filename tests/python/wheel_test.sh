#!/usr/bin/env bash
# Builds a wheel from the build tree, installs it into a new virtual environment without an index,
# and puts and gets with it through a daemon, from elsewhere than the sources.
#
#   wheel_test.sh PYTHON BUILD_DIRECTORY VERSION
set -euo pipefail
python=$1 build=$2 version=$3
sources=$(cd "$(dirname "$0")/../.." && pwd)
for module in pip setuptools wheel; do
  "$python" -c "import $module" 2>/dev/null ||
    { echo "SKIPPED: $python has no $module: scripts/install_packages.sh installs it"; exit 0; }
done
work=$(mktemp -d /tmp/simm-wheel.XXXXXX)
daemon=
finish() {
  [ -z "$daemon" ] || { kill -TERM "$daemon" && wait "$daemon"; } 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
fail() {
  echo "wheel_test: $1" >&2
  exit 1
}
export PIP_DISABLE_PIP_VERSION_CHECK=1
pip() { "$@" >"$work/pip.log" 2>&1 || { cat "$work/pip.log"; exit 1; }; }

status() { git -C "$sources" status --porcelain 2>/dev/null || true; }
before=$(status)
SIMM_BUILD_DIR=$build pip "$python" -m pip wheel --no-index --no-build-isolation --no-deps \
  -w "$work" "$sources/python"
[ "$(status)" = "$before" ] || fail "building left something beside the sources"
tag=$("$python" -c 'import sys, sysconfig
python = "cp%d%d" % sys.version_info[:2]
print(python, python, sysconfig.get_platform().replace("-", "_").replace(".", "_"), sep="-")')
wheel=$work/simm-$version-$tag.whl
[ -f "$wheel" ] || fail "no $(basename "$wheel") but $(cd "$work" && echo *.whl)"

# Seeing the packages of the system spares installing pip: simm is none of them.
"$python" -m venv --without-pip --system-site-packages "$work/venv"
venv=$work/venv/bin/python
cd "$work"
! "$venv" -c 'import simm' 2>/dev/null || fail "there is a simm besides the one to test"
pip "$venv" -m pip install --no-index --no-deps "$wheel"
module=$("$venv" -c 'import simm._native; print(simm._native.__file__)')
library=$(ldd "$module" | awk '/libsimm/ { print $3 }')
[ "$library" = "$(dirname "$module")/libsimm.so.0" ] || fail "the module loads $library"
objdump -p "$module" | grep -F "$build" && fail "the module names the build tree"

mkdir run
echo "{\"run_directory\": \"$work/run\", \"node\": {\"pool_bytes\": 67108864}}" >simmd.json
"$build/bin/simmd" all --config simmd.json >log 2>&1 &
daemon=$!
export SIMM_SOCKET=$work/run/simm.sock
for _ in $(seq 300); do
  [ -S "$SIMM_SOCKET" ] && break
  sleep 0.1
done
said=$("$venv" -m simm) || { cat log; fail "python3 -m simm: $said"; }
grep -qx "simm $version" <<<"$said" || fail "python3 -m simm says: $said"
"$venv" -c '
from simm.kv import Store
from simm.lmcache import SimmL2Client  # a package inside simm
SimmL2Client().close()
with Store() as store:
    source, target = store.allocate(1 << 20), store.allocate(1 << 20)
    memoryview(source)[:] = bytes(range(256)) * 4096
    assert store.put("wheel", source.view()) == 0
    assert store.get("wheel", target.view()) == 1 << 20
    assert bytes(target) == bytes(source)'
# What SGLang's plugin loader finds and calls.
plugin=$("$venv" -c 'from importlib.metadata import entry_points
found = entry_points(group="sglang.srt.plugins", name="simm")
print(*[entry.load().__module__ for entry in found])')
[ "$plugin" = simm.sglang.repair ] || fail "the plugin for SGLang is: $plugin"
# The package of a distribution, which is the build tree's, says the same about itself.
"$venv" -c '
import importlib.metadata, sys
ours, = importlib.metadata.distributions(name="simm", path=[sys.argv[1]])
wheel = importlib.metadata.distribution("simm")
def about(found):
    names = ("Name", "Version", "Summary", "License", "Requires-Python")
    lists = ("Provides-Extra", "Requires-Dist")
    return ([found.metadata[name] for name in names],
            [sorted(line.replace(" ", "").replace(chr(34), chr(39))
                    for line in found.metadata.get_all(name)) for name in lists],
            sorted((entry.group, entry.name, entry.value) for entry in found.entry_points))
assert about(ours) == about(wheel), f"{about(ours)}\n{about(wheel)}"
' "$build/python" || fail "the build tree and the wheel differ in what they say about themselves"
pip "$venv" -m pip uninstall -y simm
! "$venv" -c 'import simm' 2>/dev/null || fail "uninstalling left something"
echo "wheel_test: passed"
