#!/usr/bin/env bash
# Runs in the guest, as root, with the devices of scripts/guest/soft_roce.sh: a cluster whose pages
# move by RDMA. A manager and two storage daemons on the far ends of both cables, a node daemon on
# the near ends; a conversation is replayed with every byte compared, also while a cable is out and
# while storage daemons die.
#
# Called by rdma.sh; alone: scripts/rdma-guest.sh tests/guest/rdma_cluster.sh DIRECTORY_OF_PROGRAMS
set -uo pipefail
readonly bin=$1
readonly run=/run/rdma-cluster
readonly patience_s=60
failures=0
ulimit -l unlimited

ok() { echo "ok    $1 ($(cut -d. -f1 /proc/uptime) s)"; }
bad() {
  echo "FAILED $1"
  failures=$((failures + 1))
}
eventually() { # WHAT COMMAND...
  local what=$1 until=$((SECONDS + patience_s))
  shift
  while ! "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || { bad "$what (waited for: $*)"; return 1; }
    sleep 0.2
  done
  ok "$what"
}
configure() { # NAME MEMBERS
  mkdir -p "$run/$1"
  echo "{\"run_directory\": \"$run/$1\", $2}" >"$run/$1/simmd.json"
}
start() { # NAME ROLE
  "$bin/simmd" "$2" --config "$run/$1/simmd.json" >>"$run/$1/log" 2>&1 &
  echo $! >"$run/$1.pid"
}
ask() { # NAME COMMAND...
  local name=$1
  shift
  "$bin/simmctl" --json --admin "$run/$name/admin.sock" "$@"
}
counter() { # NAME COUNTER
  ask "$1" stats | python3 -c 'import json, sys
print(sum(v for k, v in json.load(sys.stdin).items() if k.endswith(sys.argv[1]) and
          k.startswith(sys.argv[2])))' ".$2" "${3:-rdma}" 2>/dev/null
}
queue_pairs() { # EXPECTED: of all peers of the node
  [ "$(ask node peers | python3 -c 'import json, sys
print(sum(p["queue_pairs_open"] for p in json.load(sys.stdin)["peers"]))')" = "$1" ]
}
replay() { # WHAT
  local out is_done=0
  out=$("$bin/simm-bench" replay --daemon "$run/node/simm.sock" --model deepseek-r1 \
    --scale 64 --requests "${2:-12}" --processes 2 --pool-bytes $((96 << 20)) 2>&1) && is_done=1
  await_unrest
  if [ $is_done = 1 ]; then
    if tail -1 <<<"$out" | grep -q '"bytes_wrong": *0[,}]'; then
      ok "$1: $(tail -1 <<<"$out" | cut -c1-300)"
      return
    fi
  fi
  bad "$1: $(tail -3 <<<"$out")"
}

port=30001
cluster="\"manager\": \"127.0.0.1:$port\""
far='"nics": [{"name": "rxe1", "numa_node": 0}, {"name": "rxe3", "numa_node": 1}]'
# Both are near to all memory of the node, so that a long batch goes over both.
near='"nics": [{"name": "rxe0"}, {"name": "rxe2"}]'
configure manager "\"cluster\": {$cluster, \"node_name\": \"manager\"},
  \"manager\": {\"listen\": \"127.0.0.1:$port\"}"
start manager manager
for name in storage-1 storage-2; do
  configure $name "\"cluster\": {$cluster, \"node_name\": \"$name\"},
    \"node\": {\"pool_bytes\": $((48 << 20)), \"hugepages\": \"off\"},
    \"rdma\": {\"mode\": \"require\"}, \"store\": {\"verify\": \"always\"}, $far"
  start $name storage
done
# An emulated daemon may be busy for longer than a real one: that is not its end.
configure node "\"cluster\": {$cluster, \"node_name\": \"node\", \"detection_ms\": 1000},
  \"node\": {\"pool_bytes\": 0, \"cache_bytes\": 0}, \"rdma\": {\"mode\": \"require\"}, $near"
start node node
trap 'kill $(cat $run/*.pid) 2>/dev/null; [ $failures = 0 ] || tail -n 30 $run/*/log' EXIT

# unrest SECONDS COMMAND: runs it when the replay that follows is under way. The replay waits for
# its end; a command that fails is a failure.
unrest=
unrest() {
  local after=$1
  shift
  (sleep "$after" && "$@") &
  unrest="$! $*"
}
await_unrest() {
  [ -z "$unrest" ] || wait "${unrest%% *}" || bad "unrest: ${unrest#* }"
  unrest=
}
cables() { # up|down DEVICE...
  local state=$1 device
  shift
  for device in "$@"; do ip link set "$device" "$state"; done
}
blink() { # SECONDS DEVICE...: out for so long
  local seconds=$1
  shift
  cables down "$@" && sleep "$seconds" && cables up "$@"
}
restart() { # NAME: killed, and there again
  kill -KILL "$(cat "$run/$1.pid")"
  sleep 1
  start "$1" storage
}
registered() { counter node registered_bytes rdma.rail; }
as_registered() { [ "$(registered)" = "$1" ]; }

all_open="node and storage daemons have two queue pairs each"
eventually "$all_open" queue_pairs 4
before=$(registered)
replay "both rails"
for name in storage-1 storage-2; do
  if [ "$(counter $name read_bytes)" -gt 0 ] && [ "$(counter $name written_bytes)" -gt 0 ]; then
    ok "$name moved pages by READ and WRITE"
  else
    bad "$name moved no pages by RDMA"
  fi
done

unrest 2 blink 3 veth0
replay "the cable of one rail is out for a while" 28
wait_for_all() { eventually "$1" queue_pairs 4; }
wait_for_all "its queue pairs are back"
unrest 2 blink 2 veth0 veth2
replay "both cables are out for a while" 28
wait_for_all "all queue pairs are back"
rail_is() { # RAIL STATE: of the node
  [ "$(ask node nics | python3 -c 'import json, sys
print(*(n["rail_state"] for n in json.load(sys.stdin) if n["rail"] == int(sys.argv[1])))' \
    "$1")" = "$2" ]
}
gid_index() { # ADDRESS: where rxe0 has it
  local hex
  hex=$(printf '%02x%02x:%02x%02x' ${1//./ })
  grep -l "ffff:$hex$" /sys/class/infiniband/rxe0/ports/1/gids/* | head -1 | xargs -r basename
}
until_gid() { # ADDRESS STATE: the kernel follows its addresses a little later
  local until=$((SECONDS + patience_s)) state=
  while [ "$state" != "$2" ]; do
    [ $SECONDS -lt $until ] || { echo "the GID of $1 is not $2"; return 1; }
    state=absent
    [ -z "$(gid_index "$1")" ] || state=present
  done
}
is_free() { # INDEX: of rxe0 has no GID
  grep -qx '[0:]*' "/sys/class/infiniband/rxe0/ports/1/gids/$1"
}
move_gid() { # of rxe0, to another index
  local before stranger=0 until=$((SECONDS + patience_s))
  before=$(gid_index 10.77.0.1)
  ip address del 10.77.0.1/24 dev veth0
  until_gid 10.77.0.1 absent || return 1
  # The kernel gives the index to nobody while a queue pair uses it, then to the next address:
  # strangers come until one of them has it.
  while is_free "$before"; do
    stranger=$((stranger + 1))
    if [ $stranger = 255 ] || [ $SECONDS -ge $until ]; then
      echo "no address gets index $before"
      return 1
    fi
    ip address add 10.77.9.$stranger/32 dev veth0
    until_gid 10.77.9.$stranger present || return 1
    sleep 0.1
  done
  ip address add 10.77.0.1/24 dev veth0
  until_gid 10.77.0.1 present || return 1
  ip address flush dev veth0 to 10.77.9.0/24
  ip route replace 10.77.0.2 dev veth0 src 10.77.0.1 table 101
  [ "$(gid_index 10.77.0.1)" != "$before" ] || { echo "the GID stays at $before"; return 1; }
  blink 2 veth0
  ip route replace 10.77.0.2 dev veth0 src 10.77.0.1 table 101
}
unrest 2 move_gid
replay "an address comes back at another index" 28
wait_for_all "queue pairs are made with the new index"
new_device() { # DEVICE NETWORK_DEVICE: deleted, and made again
  rdma link del "$1" && rdma link add "$1" type rxe netdev "$2"
}
lost() { # NAME COUNT: so often it has seen a device go
  [ "$(counter "$1" lost rdma.rail)" = "$2" ]
}
unrest 2 new_device rxe0 veth0
replay "the node's device is taken out and comes back" 28
eventually "the node has noticed" lost node 1
wait_for_all "a device that comes back has its queue pairs"
unrest 2 new_device rxe1 veth1
replay "the device of the storage daemons is taken out and comes back" 28
eventually "they have noticed" lost storage-1 1
wait_for_all "a device that comes back knows the pool"
kill "$(cat $run/node.pid)"
wait "$(cat $run/node.pid)" 2>/dev/null
cables down veth0
start node node
eventually "a node starts while one of its links is down" queue_pairs 2
eventually "and says so" rail_is 0 waiting
cables up veth0
wait_for_all "a link that comes up late is used"
eventually "and says that it is open" rail_is 0 open
unrest 2 restart storage-1
replay "a storage daemon is killed in the middle" 28
wait_for_all "its successor has queue pairs"
unrest 2 pkill -KILL simm-bench
"$bin/simm-bench" replay --daemon "$run/node/simm.sock" --model deepseek-r1 --scale 64 \
  --requests 28 --processes 2 --pool-bytes $((96 << 20)) >/dev/null 2>&1
eventually "regions of killed clients are deregistered" as_registered "$before"
replay "after all that"

client() { timeout $patience_s "$bin/rdma_client" "$run/node/simm.sock" "$@" 2>&1; }
scene() { # WHAT COMMAND...: ends well; what it says is shown
  local what=$1 out
  shift
  if out=$("$@"); then ok "$what: $out"; else bad "$what: $out"; fi
}
moved() { # of the node and the storage daemons together: READ, WRITTEN, copied by a CPU
  local name
  for name in node storage-1 storage-2; do
    "$bin/simmctl" --admin "$run/$name/admin.sock" stats
  done | awk '/^rdma.*\.read_bytes/ {read += $2} /^rdma.*\.written_bytes/ {written += $2}
    /^rdma.*\.inline_bytes|^shared_reads.*\.copied_bytes|^tcp.*_bytes/ {copied += $2}
    END {printf "%.0f %.0f %.0f\n", read, written, copied}'
}
uncopied() { # KIND: each byte moves by RDMA, and none otherwise
  local before after out put got staged
  read -ra before <<<"$(moved)"
  out=$(client uncopied "$1") || { echo "$out"; return 1; }
  read -r put got staged <<<"$out"
  read -ra after <<<"$(moved)"
  local copied=$((after[2] - before[2] + staged))
  echo "$put bytes put, $got got, $((after[0] - before[0])) READ, $((after[1] - before[1]))" \
    "WRITTEN, $copied copied"
  # What a link had that was lost is moved again. Over TCP goes less than a page: life signs.
  [ "$put" = "$got" ] && [ $((after[0] - before[0])) -ge "$put" ] &&
    [ $((after[1] - before[1])) -ge "$got" ] && [ $copied -lt $((256 << 10)) ]
}
for kind in shared adopted; do
  scene "pages of $kind memory move by RDMA, and no CPU copies them" uncopied $kind
done
sent() { cat "/sys/class/net/$1/statistics/tx_bytes"; }
over_both() { # BYTES COUNT: pages whose storage daemons need both cables
  local first second
  first=$(sent veth1) second=$(sent veth3)
  client large "$@" || return 1
  first=$(($(sent veth1) - first)) second=$(($(sent veth3) - second))
  echo "$first bytes came over one cable, $second over the other"
  [ $first -ge $(($1 * $2 / 4)) ] && [ $second -ge $(($1 * $2 / 4)) ]
}
scene "a batch of full-size pages is spread over both rails" over_both 4497408 8
scene "a page that is too long for one rail is cut over both" over_both $((12 << 20)) 1
scene "nothing happens" client gaps 2
unrest 2 blink 2 veth0
scene "fail-over" client gaps 6
wait_for_all "its queue pairs are back"
troubled() { # COMMAND...: while one cable or the other is out most of the time
  (while sleep 1; do blink 1 veth0 && sleep 1 && blink 1 veth2; done) &
  local trouble=$! status=0
  "$@" || status=$?
  kill $trouble
  wait $trouble 2>/dev/null
  cables up veth0 veth2
  return $status
}
scene "what was cut off leaves its memory alone" client canary 8
scene "and so it does when a link breaks meanwhile" troubled client canary 12
wait_for_all "all queue pairs are back after that"
registered_by="'$bin/simmctl' --admin $run/node/admin.sock stats rdma.rail |
  awk '/registered_bytes/ {n += \$2} END {print n + 0}'"
scene "memory of who was killed is let go before it is another's" client killed 5 "$registered_by"
# As files, for a client that calls them.
cat >"$run/kill-node" <<END
kill -KILL \$(cat $run/node.pid)
END
cat >"$run/start-node" <<END
$bin/simmd node --config $run/node/simmd.json >>$run/node/log 2>&1 &
echo \$! >$run/node.pid
END
kills=${SIMM_KILLS:-6}
bereft() {
  timeout $((60 + 40 * kills)) "$bin/rdma_client" "$run/node/simm.sock" bereft "$@" 2>&1
}
scene "the death of the node daemon leaves pages and objects alone" \
  bereft "$kills" "bash $run/kill-node" "bash $run/start-node"
wait_for_all "its successor has queue pairs as well"
echo "$failures failures"
[ $failures = 0 ]
