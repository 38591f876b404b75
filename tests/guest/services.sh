#!/usr/bin/env bash
# Runs in the guest, as root, with systemd in charge: the units as they are in the tree, the
# examples of config/ with other addresses and sizes, and what only a real service manager shows.
#
#   scripts/rdma-guest.sh --systemd tests/guest/services.sh DIRECTORY_OF_PROGRAMS
set -uo pipefail
readonly bin=$1
cd "$(dirname "$0")/../.." || exit 1
failures=0
# Emulation is slow, and other work may share the machine: nothing below waits shorter than this.
readonly patience_s=60

ok() { echo "ok    $1 ($(cut -d. -f1 /proc/uptime) s)"; }
bad() {
  echo "FAILED $1"
  failures=$((failures + 1))
}
# check WHAT COMMAND...: the command succeeds.
check() {
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then ok "$what"; else bad "$what: $*: $said"; fi
}
# eventually WHAT COMMAND...: it does so within patience_s.
eventually() {
  local what=$1 until=$((SECONDS + patience_s))
  shift
  while ! "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || { bad "$what (waited for: $*)"; return; }
    sleep 0.1
  done
  ok "$what"
}
state() { systemctl show --value -p "$2" "$1"; }
is() { [ "$(state "$1" "$2")" = "$3" ]; }
is_not() { ! is "$@"; }
as_engine() { setpriv --reuid engine --regid engine --init-groups --reset-env "$@"; }
says() { grep -q -- "$1" <<<"$("${@:2}" 2>&1)"; }
# A client that holds its region: `client_start NAME COMMAND...`, `client_end NAME`.
client_start() {
  local name=$1
  shift
  mkfifo "/tmp/$name.in"
  "$@" <"/tmp/$name.in" >"/tmp/$name.out" 2>&1 &
  eval "${name}_pid=$!"
  exec {held}>"/tmp/$name.in"
  eval "${name}_in=$held"
}
client_end() {
  local pid=${1}_pid in=${1}_in
  exec {held}>&- # a copy of the last one's
  eval "exec ${!in}>&-"
  wait "${!pid}"
}

# --- as a package does it
install -m 755 "$bin/simmd" "$bin/simmctl" "$bin/guest_client" /usr/bin/
cp -P "$bin"/../libclient/libsimm.so* /usr/lib/
cp systemd/simm*.service systemd/simm*.socket systemd/simm.target /etc/systemd/system/
mkdir -p /etc/sysusers.d /etc/tmpfiles.d /etc/simm
cp systemd/simm.sysusers /etc/sysusers.d/simm.conf
cp systemd/simm.tmpfiles /etc/tmpfiles.d/simm.conf
printf 'u engine -\nm engine simm-clients\n' >/etc/sysusers.d/engine.conf
sed 's/manager.example.org/127.0.0.1/; s/storage-1.example.org/127.0.0.1/; s/"80%"/"64MiB"/
  s/"data_agents": 4/"data_agents": 1/; s|// , {"path"|, {"path"|' config/node.json \
  >/etc/simm/node.json
for role in storage manager; do
  sed 's/manager.example.org/127.0.0.1/; s/storage-1.example.org/127.0.0.1/; s/"80%"/"64MiB"/
    s/"data_agents": 4/"data_agents": 1/' "config/$role.json" >"/etc/simm/$role.json"
done
check "users" systemd-sysusers simm.conf engine.conf
simmctl secret create /etc/simm/cluster.secret
check "directories" systemd-tmpfiles --create simm.conf
for service in node storage manager; do # a shorter watchdog, for who waits for it
  mkdir -p "/etc/systemd/system/simm-$service.service.d"
  printf '[Service]\nWatchdogSec=8\n' >"/etc/systemd/system/simm-$service.service.d/watchdog.conf"
done
systemctl daemon-reload

# --- activation: the cluster is there, the node is not, and a client comes
check "manager and storage start" systemctl start simm-manager.service simm-storage.service
check "sockets start" systemctl start simm-node.socket simm-tenant@blue.socket simm-adopt.socket
check "the node is not started yet" is simm-node.service ActiveState inactive
check "nor is its helper" is simm-adopt.service ActiveState inactive
check "a connect starts the node, and is served" as_engine guest_client connect
check "now it is active" is simm-node.service ActiveState active
check "a stranger to the group is refused" says "ermission denied" \
  setpriv --reuid nobody --regid nogroup --clear-groups guest_client connect
check "the secret is handed over, and is nobody's else" says "Permission denied" \
  setpriv --reuid simm --regid simm --clear-groups cat /etc/simm/cluster.secret
eventually "the cluster knows storage and node" says "node *vm\|vm *node" simmctl nodes

# --- bytes through all three services
head -c 300000 /dev/urandom >/tmp/page
chmod 644 /tmp/page
put() { as_engine simmctl put --replace --in /tmp/page guest/object; }
gets_it() { as_engine simmctl get guest/object | cmp - /tmp/page; }
eventually "put" put
check "get" gets_it
check "a tenant's socket has its tenant" says blue simmctl sockets
other_tenant_misses() {
  SIMM_SOCKET=/run/simm/tenants/blue/simm.sock simmctl exists guest/object
  [ $? = 1 ]
}
check "and does not see the object" other_tenant_misses

# --- adoption through the real unit: for one tenant only
as_engine guest_client adopt </dev/null >/tmp/two.out 2>&1
check "beside another tenant memory is staged" grep -q '^staged: .*other tenants' /tmp/two.out
sed -i '/tenants.blue/s|, {"path"|// , {"path"|' /etc/simm/node.json
check "blue leaves" systemctl stop simm-node.service simm-tenant@blue.socket
check "and the node starts without it" systemctl start simm-node.service
node_pid() { state simm-node.service MainPID; }
client_start adopter as_engine guest_client adopt
eventually "shared memory of a client is adopted" grep -q '^adopted: ' /tmp/adopter.out
cat /tmp/adopter.out
check "simmctl regions says so" says adopted simmctl regions
check "the helper has three capabilities" grep -q '^CapEff:[[:space:]]*00000100000000c0$' \
  "/proc/$(state simm-adopt.service MainPID)/status"
check "the node has none" grep -q '^CapPrm:[[:space:]]*0000000000000000$' "/proc/$(node_pid)/status"
check "the helper is started again" systemctl restart simm-adopt.service
client_end adopter
as_engine guest_client adopt </dev/null >/tmp/again.out 2>&1
check "and adopts again" grep -q '^adopted: ' /tmp/again.out
guest_client adopt </dev/null >/tmp/root.out 2>&1
check "root's memory is staged without the drop-in" grep -q '^staged: ' /tmp/root.out
mkdir -p /etc/systemd/system/simm-adopt.service.d
cp systemd/drop-ins/adopt-root-clients.conf /etc/systemd/system/simm-adopt.service.d/
systemctl daemon-reload
systemctl restart simm-adopt.service
guest_client adopt </dev/null >/tmp/root.out 2>&1
check "and adopted with it" grep -q '^adopted: ' /tmp/root.out

# --- a restart loses nobody in the queue
mkdir -p /etc/systemd/system/simm-node.service.d
printf '[Service]\nExecStartPre=/bin/sleep 4\n' >/etc/systemd/system/simm-node.service.d/slow.conf
systemctl daemon-reload
systemctl restart --no-block simm-node.service
eventually "the node is down" is simm-node.service SubState start-pre
client_start waiting as_engine guest_client connect
sleep 1
check "a client waits" test ! -s /tmp/waiting.out
check "while there is no daemon" is simm-node.service SubState start-pre
client_end waiting
check "and was served by the next one" grep -q attached /tmp/waiting.out
rm /etc/systemd/system/simm-node.service.d/slow.conf
systemctl daemon-reload

# --- whatever happens to the process, there is a new one
survives() { # WHAT COMMAND...: after the command there is another process, and it serves
  local what=$1 before
  shift
  before=$(node_pid)
  "$@"
  eventually "$what: it is ended and started again" is_not simm-node.service MainPID "$before"
  eventually "$what: serving again" is simm-node.service ActiveState active
  check "$what: clients attach" as_engine guest_client connect
}
survives "kill -9" kill -9 "$(node_pid)"
survives "SIGSTOP" kill -STOP "$(node_pid)"
hold_data_thread() {
  local task
  for task in /proc/"$(node_pid)"/task/*; do
    grep -q simm-data "$task/comm" && break
  done
  guest_client hold "${task##*/}" >/tmp/holder.out &
  eventually "one data thread hangs" grep -q held /tmp/holder.out
}
survives "a thread that hangs" hold_data_thread
check "the watchdog did that" says "Watchdog timeout" journalctl -q -u simm-node.service
eventually "the object outlived it all" gets_it

# --- the cache outlives its daemon: systemd keeps its memory
storage_said() { journalctl -q -o cat _PID="$(state simm-storage.service MainPID)"; }
outlives() { # WHAT COMMAND...: after the command another storage daemon has the same objects
  local what=$1 before
  shift
  before=$(state simm-storage.service MainPID)
  "$@"
  eventually "$what: another process" is_not simm-storage.service MainPID "$before"
  eventually "$what: serving" is simm-storage.service ActiveState active
  check "$what: with what was there" says "kind=handed contents=kept" storage_said
  eventually "$what: the object is there" gets_it
}
eventually "put again" put
outlives "storage, kill -9" kill -9 "$(state simm-storage.service MainPID)"
outlives "storage, systemctl restart" systemctl restart simm-storage.service

# --- what the journal has
logged() { says "$3" journalctl -q -o cat -u "$1" -p "$2..$2"; }
check "information is information" logged simm-node.service info "control: ready"
systemd-run -q --wait --unit=simm-wrong simmd node --config /etc/simm/no-such-file.json
check "a failure is an error" logged simm-wrong.service err "no-such-file.json"
refused() { journalctl -q -o cat -u 'simm-*' | grep -i 'not permitted\|EPERM\|denied'; }
said=$(refused)
check "no sandbox is in the way: $said" test -z "$said"

# --- the end
check "the target stops everything" systemctl stop simm.target
for unit in simm-node.service simm-node.socket simm-adopt.socket simm-adopt.service \
  simm-storage.service simm-manager.service; do
  eventually "$unit is stopped" is "$unit" ActiveState inactive
done
check "nobody's socket is left" test ! -e /run/simm/simm.sock

if [ $failures -gt 0 ]; then
  journalctl -q --no-pager -u 'simm-*' | tail -60
  echo "$failures checks FAILED"
  exit 1
fi
echo "all checks passed after $(cut -d. -f1 /proc/uptime) s"
