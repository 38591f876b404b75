#!/usr/bin/env bash
# From a bare Debian or Ubuntu to a replay: installs packages, builds release, starts `simmd all`,
# replays a conversation trace with four client processes that check every byte they fetch, prints
# the table and, as the last line, one JSON object, and stops everything it started.
#
#   scripts/demo.sh [--trace FILE] [--quick]
#
# --trace FILE   replays real requests instead of generated ones
#                (libclient/tools/simm-bench/TRACE.md says where there are some)
# --quick        a short trace and a small pool: under a minute when the build is there
#
# SIMM_JOBS (all CPUs) bounds parallel compilation.
set -euo pipefail

usage() { sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//'; }
fail() {
  echo "demo: $1" >&2
  exit 2
}

replay=(--processes 4)
quick=
while [ $# -gt 0 ]; do
  case $1 in
    --trace)
      [ $# -ge 2 ] || fail "--trace needs a file"
      [ -r "$2" ] || fail "--trace $2: no such file, or it can not be read"
      replay+=(--trace "$(realpath -- "$2")")
      shift
      ;;
    --quick)
      quick=1
      replay+=(--quick)
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail "unknown option '$1': use --trace FILE or --quick" ;;
  esac
  shift
done
cd "$(dirname "$0")/.."

step() { printf 'demo: %s (%d s)\n' "$1" "$SECONDS" >&2; }

run_directory=
daemon=
stop() {
  local waited=0
  if [ -n "$daemon" ] && kill -TERM "$daemon" 2>/dev/null; then
    while kill -0 "$daemon" 2>/dev/null && [ $((waited += 1)) -le 100 ]; do sleep 0.1; done
    kill -KILL "$daemon" 2>/dev/null && echo "demo: simmd did not stop within 10 s, killed" >&2
    wait "$daemon" 2>/dev/null || true
  fi
  [ -z "$run_directory" ] || rm -rf "$run_directory"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What a build prints is shown only when it fails.
quietly() {
  local log="$run_directory/build.log"
  "$@" >"$log" 2>&1 || {
    tail -50 "$log" >&2
    fail "failed: $*"
  }
}

step "packages"
scripts/install_packages.sh >&2
run_directory=$(mktemp -d /tmp/simm-demo.XXXXXX)

step "building release"
quietly cmake --preset release -Wno-dev
quietly cmake --build --preset release -j "${SIMM_JOBS:-$(nproc)}" --target simmd simm-bench
bin=build/release/bin

# A third of the memory that is free, at most 8 GiB.
pool_mib=$(awk '/^MemAvailable:/ { mib = int($2 / 1024 / 3); print (mib > 8192 ? 8192 : mib) }' \
  /proc/meminfo)
if [ -n "$quick" ] && [ "$pool_mib" -gt 1024 ]; then pool_mib=1024; fi
pool_bytes=$((pool_mib << 20))
cat >"$run_directory/simmd.json" <<CONFIG
{
  "run_directory": "$run_directory",
  "sockets": [{"path": "$run_directory/simm.sock"}],
  "node": {"pool_bytes": $pool_bytes}
}
CONFIG

step "starting simmd all with a pool of $pool_mib MiB"
"$bin/simmd" all --config "$run_directory/simmd.json" >"$run_directory/simmd.log" 2>&1 &
daemon=$!
for _ in $(seq 300); do
  [ ! -S "$run_directory/simm.sock" ] || break
  kill -0 "$daemon" 2>/dev/null || break
  sleep 0.1
done
if [ ! -S "$run_directory/simm.sock" ]; then
  cat "$run_directory/simmd.log" >&2
  fail "simmd does not listen"
fi

step "replaying"
status=0
"$bin/simm-bench" replay "${replay[@]}" --daemon "$run_directory/simm.sock" \
  --pool-bytes "$pool_bytes" || status=$?
if [ "$status" != 0 ]; then tail -50 "$run_directory/simmd.log" >&2; fi
exit "$status"
