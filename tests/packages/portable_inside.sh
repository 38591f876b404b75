#!/usr/bin/env bash
# Runs in the bare system that portable_test.sh has made: a daemon, the wheel, the tools, a cluster
# over TCP, and RDMA that is asked for where its library is not.
#
#   portable_inside.sh VERSION TREE
set -euo pipefail
version=$1 bin=$2/bin
step() { printf 'packages:   %s (%d s)\n' "$1" "$SECONDS"; }
fail() {
  echo "portable: $1" >&2
  exit 1
}

for library in libstdc++ libcapnp libkj libnuma libibverbs liburing libxxhash libsimm; do
  found=$(find / -xdev -name "$library*.so*" -not -path "$2/*" -not -path '/packages/*')
  [ -z "$found" ] || fail "the system is not bare: $found"
done
for program in simmd simmctl; do
  said=$("$bin/$program" --version) || fail "$program --version: $said"
  grep -q "$version" <<<"$said" || fail "$program --version: $said"
done

step "a daemon, and programs that use it"
mkdir -p /tmp/run
echo '{"run_directory": "/tmp/run", "node": {"pool_bytes": 134217728}}' >/tmp/simmd.json
"$bin/simmd" all --config /tmp/simmd.json >/tmp/simmd.log 2>&1 &
daemon=$!
export SIMM_SOCKET=/tmp/run/simm.sock
for _ in $(seq 600); do
  [ -S "$SIMM_SOCKET" ] && break
  sleep 0.1
done
said=$(/packages/hello_c) || fail "hello_c: $said"
[ "$(head -1 <<<"$said")" = hello ] || fail "hello_c said '$said'"
head -c 1000000 /dev/urandom >/tmp/page
"$bin/simmctl" put --in /tmp/page page || fail "simmctl put: $(cat /tmp/simmd.log)"
"$bin/simmctl" get page | cmp - /tmp/page || fail "simmctl get has other bytes than were put"
export PYTHONPATH=/packages/python PYTHONDONTWRITEBYTECODE=1
python3 -m simm || fail "python3 -m simm"
python3 /packages/portable_use.py "$version" || fail "the wheel"
head -c 4096 /dev/zero | tr '\0' w >/tmp/wheel
"$bin/simmctl" get "of the wheel" | cmp - /tmp/wheel ||
  fail "simmctl gets other bytes than the wheel has put"
kill -TERM "$daemon"
wait "$daemon" || fail "simmd ended with $?: $(cat /tmp/simmd.log)"
! grep -q libibverbs /tmp/simmd.log || fail "nobody wants RDMA: $(grep libibverbs /tmp/simmd.log)"

step "a cluster, and simm-bench that compares every byte"
"$bin/simm-demo" >/tmp/demo 2>/tmp/demo.log || { cat /tmp/demo.log; fail "simm-demo"; }
tail -1 /tmp/demo | grep -q '"bytes_wrong":0,' || fail "simm-demo: $(tail -1 /tmp/demo)"
! grep -q libibverbs /tmp/demo.log || fail "nobody wants RDMA: $(grep libibverbs /tmp/demo.log)"

step "RDMA, where its library is not, and where it is none"
"$bin/simmctl" secret create /tmp/secret
refused() { # WORDS ENVIRONMENT...: what a daemon says that has to have RDMA
  local said
  mkdir -p /tmp/rdma
  echo '{"run_directory": "/tmp/rdma", "node": {"pool_bytes": 67108864},
    "cluster": {"secret_file": "/tmp/secret", "manager": "127.0.0.1:30001", "node_name": "storage",
      "listen": "127.0.0.1:0"},
    "rdma": {"mode": "require"}}' >/tmp/rdma.json
  ! said=$(env "${@:2}" timeout 60 "$bin/simmd" storage --config /tmp/rdma.json 2>&1) ||
    fail "a daemon that has to have RDMA goes on without"
  grep -qF "$1" <<<"$said" || fail "a daemon that has to have RDMA says '$said', not '$1'"
}
refused "libibverbs.so.1: cannot open shared object file"
refused "install libibverbs1 (Debian, Ubuntu) or rdma-core"
refused "libibverbs.so.1 of rdma-core 34 or newer: this one has no ibv_" \
  LD_LIBRARY_PATH=/packages/old
