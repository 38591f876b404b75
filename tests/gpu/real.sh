#!/bin/bash
# What only a machine with a GPU can tell: tests/gpu/real.sh [BIN_DIR]
#
# Starts a daemon out of BIN_DIR (build/release/bin), which has simmd, simmctl and gpu_real, and
# prints a table. It takes a minute or two, and ends with 1 when a row failed. Nothing is built but
# a check of our declarations, where NVIDIA's header and a compiler are to be had.
# Environment: SIMM_REAL_POOL, the daemon's pool (4GiB); SIMM_REAL_ROUNDS, of each measurement (5);
# SIMM_REAL_LET_GO_MS, how soon the memory of a dead client has to be free (1000).
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
bin=${1:-$here/build/release/bin}
work=$(mktemp -d /tmp/simm_gpu_real.XXXXXX)
daemon_pid=""
failed=0

row() { # WHAT FIGURE VERDICT
  printf '%-44s | %-34s | %s\n' "$1" "$2" "$3"
  [ "$3" != FAILED ] || failed=1
}
end() {
  [ -z "$daemon_pid" ] || { kill "$daemon_pid" 2>/dev/null; wait "$daemon_pid" 2>/dev/null; }
  rm -rf "$work"
}
trap end EXIT
gpus() { "$bin/simmctl" --admin "$work/admin.sock" --json gpus 2>/dev/null; }
field() { gpus | tr ',' '\n' | sed -n 's/.*"'"$1"'": *"\{0,1\}\([^"}]*\).*/\1/p' | head -1; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
# Waits until the field has the value, a minute at most; prints after how many milliseconds.
await() { # FIELD VALUE
  local began
  began=$(milliseconds)
  until [ "$(field "$1" 2>/dev/null)" = "$2" ]; do
    [ $(($(milliseconds) - began)) -lt 60000 ] || return 1
    sleep 0.02
  done
  echo "$(($(milliseconds) - began)) ms"
}

echo "date: $(date -u +%F); host: $(uname -m), kernel $(uname -r)"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null ||
  echo "no nvidia-smi: is this the driver of the tests?"

cat >"$work/simm.json" <<END
{"run_directory": "$work", "gpu": {"enabled": true},
 "tenants": [{"name": "default", "gpu_lend": "all"}],
 "node": {"pool_bytes": "${SIMM_REAL_POOL:-4GiB}", "hugepages": "off"}}
END
"$bin/simmd" all --config "$work/simm.json" 2>"$work/log" &
daemon_pid=$!
for _ in $(seq 300); do
  "$bin/simmctl" --admin "$work/admin.sock" status >/dev/null 2>&1 && break
  sleep 0.1
done

# Bytes, figures, and what is refused.
timeout 300 "$bin/gpu_real" "$work/simm.sock" || failed=1

# The tier: objects that are read again stay on the GPU, until the memory is taken back.
ctl() { "$bin/simmctl" --admin "$work/admin.sock" "$@" >/dev/null; }
ctl gpus 1GiB || failed=1
timeout 120 "$bin/gpu_real" "$work/simm.sock" --tier || failed=1
hits=$(field tier_hits)
[ "${hits:-0}" -ge 64 ] && verdict=ok || verdict=FAILED
row "pieces that came out of the tier" "${hits:-0}, $(field tier_bytes) bytes" "$verdict"
ctl gpus 0 || failed=1
if await tier_bytes 0 >/dev/null; then
  row "memory of the tier is taken back" "$(field tier_revoke_us) us" ok
else
  row "memory of the tier is taken back" "not within a minute" FAILED
fi

# Leases: how long a lender waits for its memory while others get all they can. For these figures
# alone: gpu_real SOCKET --revoke.
timeout 300 "$bin/gpu_real" "$work/simm.sock" --revoke || failed=1

# A client that is killed: its memory is free within a second.
timeout 60 "$bin/gpu_real" "$work/simm.sock" --stay >"$work/stay" &
stay=$!
disown "$stay"  # nobody needs to hear how it ended
for _ in $(seq 100); do grep -q ready "$work/stay" && break; sleep 0.1; done
stayed=$(pgrep -P "$stay" | head -1)
kill -9 "${stayed:-$stay}" 2>/dev/null
if took=$(await regions 0); then
  [ "${took% ms}" -le "${SIMM_REAL_LET_GO_MS:-1000}" ] && verdict=ok || verdict=FAILED
  row "memory is let go of after kill -9" "$took" "$verdict"
else
  row "memory is let go of after kill -9" "not within a minute" FAILED
fi

# What the helper's context costs, and that another helper takes over.
helper=$(field helper)
context=$(nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits \
  2>/dev/null | sed -n "s/^$helper, *//p")
row "memory of the GPU for a helper" "${context:-unknown} MiB" ok
kill -9 "$helper"
if took=$(await restarts 1) && [ "$(field state)" = running ]; then
  row "another helper takes over" "$took" ok
else
  row "another helper takes over" "$(field last_error)" FAILED
fi

# Our declarations beside NVIDIA's header.
header=$(ls /usr/local/cuda*/include/cuda.h /usr/include/cuda.h 2>/dev/null | head -1)
if [ -n "$header" ] && command -v g++ >/dev/null; then
  if g++ -std=c++20 -fsyntax-only -I"$here" -I"$(dirname "$header")" \
    "$here/tests/gpu/real/driver_abi_check.cpp" 2>"$work/abi"; then
    row "declarations of the driver" "as in $header" ok
  else
    cat "$work/abi"
    row "declarations of the driver" "not as in $header" FAILED
  fi
else
  row "declarations of the driver" "no cuda.h, or no compiler" skipped
fi

# torch: its default allocator is refused, memory of simm.gpu.pool() is taken.
if python3 -c 'import simm, torch; assert torch.cuda.is_available()' 2>/dev/null; then
  if python3 "$here/tests/gpu/real/torch_check.py" "$work/simm.sock" 2>"$work/torch"; then
    row "torch: default refused, simm.gpu.pool() taken" "as it should be" ok
  else
    cat "$work/torch"
    row "torch: default refused, simm.gpu.pool() taken" "see above" FAILED
  fi
else
  row "torch: default refused, simm.gpu.pool() taken" "no torch with a GPU, or no simm" skipped
fi
row "a busy kernel beside full traffic" "this script measures none" skipped
[ "$failed" = 0 ] || tail -5 "$work/log"
exit "$failed"
