#!/usr/bin/env bash
# Runs in the guest, as root, with the devices of scripts/guest/soft_roce.sh: what needs real verbs.
#
#   scripts/rdma-guest.sh tests/guest/rdma.sh DIRECTORY_OF_PROGRAMS [DIRECTORY_OF_SANITIZED_ONES]
set -euo pipefail
readonly bin=$1
readonly sanitized=${2:-}
[ "$(rdma link | grep -c 'state ACTIVE')" = 4 ] || { rdma link && exit 1; }
# As the drop-in of the services for RDMA allows it.
ulimit -l unlimited
for rail in "rxe0 rxe1" "rxe2 rxe3"; do
  # Rail B is there, and like rail A: so much is seen in one scene.
  scenes=$([ "$rail" = "rxe0 rxe1" ] && echo '*' || echo '*many sizes*')
  SIMM_RDMA_DEVICES=$rail "$bin/conformance_rdma" --no-colors --duration --test-case="$scenes"
done
if [ -n "$sanitized" ]; then
  # Emulated and sanitized: a few rounds of each.
  SIMM_RDMA_DEVICES="rxe0 rxe1" SIMM_ROUNDS_PERCENT=10 "$sanitized/conformance_rdma" --no-colors \
    --duration
fi
# The transport's own suite, on the same devices.
SIMM_RDMA_DEVICES="rxe0 rxe1" SIMM_ROUNDS=1 "$bin/conformance" --no-colors --test-case="transport*"
"$(dirname "$0")/rdma_cluster.sh" "$bin"
# That it runs, not what it says.
"$bin/simm-bench" rdma --near rxe0 --far rxe1 --quick
echo "all passed after $(cut -d. -f1 /proc/uptime) s"
