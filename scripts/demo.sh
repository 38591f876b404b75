#!/usr/bin/env bash
# From a bare Debian or Ubuntu to a replay: installs packages, builds release, starts a cluster of
# four processes on loopback (a manager, two storage daemons and a node daemon), replays a
# conversation trace with four client processes that check every byte they fetch, and stops
# everything it started. It prints a table, a picture, and as the last line one JSON object.
#
# While it runs, the status page of the node daemon is open: the address is printed, and where there
# is a display a browser shows it. At the end a headless browser, where one is installed, leaves a
# picture of that page. SIMM_DEMO_OPEN=0 opens no browser.
#
#   scripts/demo.sh [--full] [--standalone | --chaos | --etcd] [--python] [--trace FILE]
#
# --full         all of the trace and a third of the free memory, at most 8 GiB: some minutes;
#                without it a short trace and 1 GiB: under a minute when the build is there
# --standalone   `simmd all` instead of a cluster: everything in one process
# --chaos        kills and restarts storage daemons and the manager while the replay runs
# --etcd         three etcd members and two managers; kills the manager that leads, and a member of
#                etcd, again and again while the replay runs (Debian: apt-get install etcd-server)
# --python       the clients are Python processes that use simm.kv, as engines do
# --trace FILE   replays real requests instead of generated ones
#                (daemon/tools/simm-bench/TRACE.md says where there are some)
#
# In the last line bytes_wrong has to be 0; with a cluster, kills counts the daemons killed.
# SIMM_JOBS (all CPUs) bounds parallel compilation. Installed (as simm-demo, beside simmd) it runs
# what lies beside it, and installs and builds nothing.
set -euo pipefail

usage() { sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//'; }
fail() {
  echo "demo: $1" >&2
  exit 2
}

trace=
quick=1
python=
standalone=
chaos=
etcd=
while [ $# -gt 0 ]; do
  case $1 in
    --trace)
      [ $# -ge 2 ] || fail "--trace needs a file"
      [ -r "$2" ] || fail "--trace $2: no such file, or it can not be read"
      trace=$(realpath -- "$2")
      shift
      ;;
    --full) quick= ;;
    --quick) quick=1 ;;  # as without: of earlier versions
    --standalone) standalone=1 ;;
    --python) python=/usr/bin/python3 ;;
    --chaos) chaos=1 ;;
    --etcd) etcd=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail "unknown option '$1': see --help" ;;
  esac
  shift
done
[ -z "$standalone" ] || [ -z "$chaos$etcd" ] ||
  fail "--chaos and --etcd need a cluster: leave out --standalone"
[ -z "$chaos" ] || [ -z "$etcd" ] || fail "--chaos or --etcd, not both"
here=$(dirname "$(realpath -- "$0")")

step() { printf 'demo: %s (%d s)\n' "$1" "$SECONDS" >&2; }

run_directory=
chaos_pid=

# Every daemon has a directory NAME with its configuration, and NAME.pid.
start_daemon() { # NAME ROLE
  "$bin/simmd" "$2" --config "$run_directory/$1/simmd.json" >>"$run_directory/$1/log" 2>&1 &
  echo $! >"$run_directory/$1.pid"
  disown $!  # nobody has to read that it was killed
}
pid_of() { cat "$run_directory/$1.pid"; }
# One that nobody has waited for yet has ended all the same.
is_alive() { [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }

stop() {
  [ -z "$chaos_pid" ] || kill -KILL "$chaos_pid" 2>/dev/null || true
  [ -n "$run_directory" ] || return 0
  local file pid waited=0
  for file in "$run_directory"/*.pid; do
    [ ! -e "$file" ] || kill -TERM "$(cat "$file")" 2>/dev/null || true
  done
  for file in "$run_directory"/*.pid; do
    [ -e "$file" ] || continue
    pid=$(cat "$file")
    while is_alive "$pid" && [ $((waited += 1)) -le 100 ]; do sleep 0.1; done
    if is_alive "$pid"; then
      kill -KILL "$pid" 2>/dev/null || true
      echo "demo: $(basename "$file" .pid) did not stop within 10 s, killed" >&2
    fi
  done
  rm -rf "$run_directory"
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

run_directory=$(mktemp -d /tmp/simm-demo.XXXXXX)
if [ -x "$here/simmd" ]; then
  bin=$here
  command -v python3 >/dev/null || fail "needs python3: apt-get install python3"
else
  cd "$here/.."
  step "packages"
  scripts/install_packages.sh >&2
  step "building release"
  quietly cmake --preset release -Wno-dev
  quietly cmake --build --preset release -j "${SIMM_JOBS:-$(nproc)}" \
    --target simmd simm-bench simmctl ${python:+simm_python}
  bin=build/release/bin
  export PYTHONPATH=build/release/python
fi
[ -z "$etcd" ] || command -v etcd >/dev/null ||
  fail "--etcd needs etcd: apt-get install etcd-server"

# A third of the memory that is free, at most 8 GiB.
pool_mib=$(awk '/^MemAvailable:/ { mib = int($2 / 1024 / 3); print (mib > 8192 ? 8192 : mib) }' \
  /proc/meminfo)
if [ -n "$quick" ] && [ "$pool_mib" -gt 1024 ]; then pool_mib=1024; fi
pool_bytes=$((pool_mib << 20))

# configure NAME MEMBERS: the members of the configuration besides the directory.
configure() {
  mkdir -p "$run_directory/$1"
  echo "{\"run_directory\": \"$run_directory/$1\", $2}" >"$run_directory/$1/simmd.json"
}
# wait_for WHAT COMMAND...: until the command succeeds, for half a minute.
wait_for() {
  local what=$1
  shift
  for _ in $(seq 300); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  tail -n 20 "$run_directory"/*/log >&2
  fail "$what"
}
ask() { # NAME COMMAND...: simmctl at that daemon
  local name=$1
  shift
  "$bin/simmctl" --json --admin "$run_directory/$name/admin.sock" "$@"
}

# COUNT: ports that are free now, below those that the kernel gives to outgoing connections.
free_ports() {
  python3 -c 'import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, 32_768)))
        held.append(s)
    except OSError:
        s.close()
for s in held: print(s.getsockname()[1])' "$1"
}
# A member of etcd is a process like the daemons: NAME.pid, and a directory NAME with its data.
start_member() { # NAME
  local url=http://127.0.0.1
  local i=$((${1#etcd-} - 1))
  etcd --name "$1" --data-dir "$run_directory/$1/data" \
    --listen-client-urls "$url:${etcd_ports[i]}" --advertise-client-urls "$url:${etcd_ports[i]}" \
    --listen-peer-urls "$url:${etcd_ports[i + 3]}" \
    --initial-advertise-peer-urls "$url:${etcd_ports[i + 3]}" \
    --initial-cluster "$etcd_peers" >>"$run_directory/$1/log" 2>&1 &
  echo $! >"$run_directory/$1.pid"
  disown $!  # nobody has to read that it was killed
}
start_etcd() {
  local i
  mapfile -t etcd_ports <<<"$(free_ports 6)"
  etcd_list=
  etcd_peers=
  for i in 0 1 2; do
    etcd_list+="${etcd_list:+, }\"http://127.0.0.1:${etcd_ports[i]}\""
    etcd_peers+="${etcd_peers:+,}${etcd_members[i]}=http://127.0.0.1:${etcd_ports[i + 3]}"
  done
  for i in "${etcd_members[@]}"; do
    mkdir -p "$run_directory/$i"
    start_member "$i"
  done
}

page='"metrics": {"listen": "0"}'  # a free port of this host
if [ -n "$standalone" ]; then
  step "starting simmd all with a pool of $pool_mib MiB"
  configure node "\"node\": {\"pool_bytes\": $pool_bytes}, $page"
  start_daemon node all
  wait_for "simmd does not listen" test -S "$run_directory/node/simm.sock"
else
  managers=(manager)
  if [ -n "$etcd" ]; then
    managers=(manager-1 manager-2)
    etcd_members=(etcd-1 etcd-2 etcd-3)
    step "starting three members of etcd"
    start_etcd
  fi
  step "starting ${managers[*]}, two storage daemons of $((pool_mib / 2)) MiB each, and a node"
  (umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$run_directory/secret")
  # A manager needs a port that stays the same when it is restarted.
  # A bare system has no /dev/fd.
  mapfile -t ports <<<"$(free_ports ${#managers[@]})"
  list=$(printf '"127.0.0.1:%s", ' "${ports[@]}")
  cluster="\"manager\": [${list%, }], \"secret_file\": \"$run_directory/secret\""
  for i in "${!managers[@]}"; do
    name=${managers[i]}
    configure "$name" "\"cluster\": {$cluster, \"node_name\": \"$name\"},
      \"manager\": {\"listen\": \"127.0.0.1:${ports[i]}\"${etcd:+, \"etcd\": [$etcd_list]}}"
    start_daemon "$name" manager
  done
  for name in storage-1 storage-2; do
    configure $name "\"cluster\": {$cluster, \"node_name\": \"$name\"},
      \"node\": {\"pool_bytes\": $((pool_bytes / 2))}"
    start_daemon $name storage
  done
  configure node "\"cluster\": {$cluster, \"node_name\": \"node\"},
    \"node\": {\"pool_bytes\": 0}, $page"
  start_daemon node node
  # Both storage daemons, every connection to them.
  all_connected() {
    ask node peers | python3 -c 'import json, sys
peers = json.load(sys.stdin)["peers"]
sys.exit(len(peers) != 2 or any(p["open"] != p["connections"] for p in peers))'
  }
  wait_for "the cluster did not come together" all_connected
  "$bin/simmctl" --admin "$run_directory/node/admin.sock" nodes >&2
  "$bin/simmctl" --admin "$run_directory/node/admin.sock" managers >&2
fi

address=$(ask node status | python3 -c 'import json, sys; print(json.load(sys.stdin)["metrics"])')
step "status page, while this runs: http://$address/"

# A browser that does not start is nobody's trouble: the address was printed.
open_page() {
  [ "${SIMM_DEMO_OPEN:-1}" != 0 ] || return 0
  [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || return 0
  command -v xdg-open >/dev/null || return 0
  setsid xdg-open "http://$address/" </dev/null >/dev/null 2>&1 &
  disown $!
  step "opened in a browser; SIMM_DEMO_OPEN=0 leaves that out"
}
open_page

# What the page shows when the replay is over, as FILE. Says why when there is none.
picture_of_page() { # FILE
  local browser="" name flags
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    browser=$(command -v "$name") && break
  done
  if [ -z "$browser" ]; then
    step "no picture of the page: no browser here, apt-get install chromium-headless-shell"
    return 1
  fi
  flags=(--headless --disable-gpu --hide-scrollbars --no-first-run --mute-audio
    --user-data-dir="$run_directory/browser" --window-size=1440,2600
    --virtual-time-budget=4500)  # two looks of the page
  [ "$(id -u)" != 0 ] || flags+=(--no-sandbox)
  if ! timeout -k 5 30 "$browser" "${flags[@]}" --screenshot="$1" "http://$address/" \
    >"$run_directory/browser.log" 2>&1 || [ ! -s "$1" ]; then
    step "no picture of the page: $name failed: $(tail -n 1 "$run_directory/browser.log")"
    return 1
  fi
}

# Kills one of the others every few seconds, and starts it again a moment later. A manager keeps the
# names of the dead for three seconds after its start, so it dies once a round: else no storage
# daemon would ever come back.
kills="$run_directory/kills"
: >"$kills"
unrest() {
  local victims=(storage-1 storage-2 manager) turn=0 name role
  while :; do
    if [ -n "$quick" ]; then sleep 0.7; else sleep 3; fi
    name=${victims[turn++ % ${#victims[@]}]}
    role=${name%-*}
    kill -KILL "$(pid_of "$name")" || return
    echo "$name" >>"$kills"
    sleep 1
    start_daemon "$name" "$role"
  done
}

# Prints the name of the manager that leads; fails when none does.
leading() {
  ask node managers | python3 -c 'import json, sys
leading = [row["name"] for row in json.load(sys.stdin)["managers"] if row["state"] == "leads"]
sys.exit(1) if not leading else print(leading[0])'
}
# Kills the manager that leads and a member of etcd at one moment, and starts both again.
unrest_of_managers() {
  local turn=0 leader member
  while :; do
    if leader=$(leading 2>/dev/null); then
      member=${etcd_members[turn++ % ${#etcd_members[@]}]}
      kill -KILL "$(pid_of "$leader")" "$(pid_of "$member")" || return
      printf '%s\n' "$leader" "$member" >>"$kills"
      sleep 1
      start_daemon "$leader" manager
      start_member "$member"
    fi
    sleep 0.7
  done
}

step "replaying"
if [ -n "$chaos$etcd" ]; then
  if [ -n "$etcd" ]; then unrest_of_managers & else unrest & fi
  chaos_pid=$!
  disown "$chaos_pid"  # nobody has to read that it was killed
fi
status=0
replay=(--processes 4 --pool-bytes "$pool_bytes")
export SIMM_SOCKET=$run_directory/node/simm.sock
if [ -n "$python" ]; then
  if [ -z "$trace" ]; then
    trace=$run_directory/generated.jsonl
    "$bin/simm-bench" trace-stats --write "$trace" ${quick:+--requests 120} >/dev/null
  elif [ -n "$quick" ]; then
    head -n 120 "$trace" >"$run_directory/quick.jsonl"
    trace=$run_directory/quick.jsonl
  fi
  replay=("$python" -m simm.replay "${replay[@]}" --trace "$trace")
else
  replay=("$bin/simm-bench" replay "${replay[@]}" --daemon "$SIMM_SOCKET"
    ${trace:+--trace "$trace"} ${quick:+--quick})
fi
"${replay[@]}" >"$run_directory/table" || status=$?
head -n -1 "$run_directory/table"
result=$(tail -n 1 "$run_directory/table")
case $result in
  "{"*"}") echo "${result%\}},\"kills\":$(wc -l <"$kills")}" ;;
  *) echo "$result" ;;
esac
if [ "$status" != 0 ]; then
  tail -n 20 "$run_directory"/*/log >&2
  exit "$status"
fi
if [ -n "$etcd" ]; then
  kill -KILL "$chaos_pid" 2>/dev/null || true
  chaos_pid=
  wait_for "no manager leads any more" leading
  step "killed: $(sort "$kills" | uniq -c | tr -s ' \n' ' ')- and $(leading) leads"
fi
# As images as well, where there is matplotlib.
pictures=$(mktemp -d /tmp/simm-demo-pictures.XXXXXX)
if "$bin/simm-bench" report --out "$pictures" "$run_directory/table" >/dev/null 2>&1; then
  step "the same as images: $pictures"
else
  rm -f "$pictures"/*
fi
if picture_of_page "$pictures/status-page.png"; then
  step "the status page as it is now: $pictures/status-page.png"
fi
rmdir "$pictures" 2>/dev/null || true
{
  echo "Next: $0 --full              all of the trace, with a large pool"
  echo "      $0 --chaos             daemons die meanwhile, and no byte is wrong"
  echo "      $0 --etcd              managers fail over meanwhile"
  echo "      $bin/simmd all &       a daemon to attach to; $bin/simmctl status"
} >&2
