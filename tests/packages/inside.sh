#!/usr/bin/env bash
# Runs in the chroot that packages_test.sh has made: installs the packages, uses them, upgrades,
# removes and purges them.
#
#   inside.sh VERSION
set -euo pipefail
version=$1
step() { printf 'packages:   %s (%d s)\n' "$1" "$SECONDS"; }
fail() {
  echo "packages: $1" >&2
  exit 1
}
quietly() { "$@" >/tmp/log 2>&1 || { cat /tmp/log >&2; fail "failed: $*"; }; }
apt() { quietly apt-get -y -q --no-install-recommends "$@"; }
# Every path of the system, without what apt, dpkg and a running system write.
paths() {
  find / -xdev \( -path /proc -o -path /dev -o -path /run -o -path /tmp -o -path /packages \
    -o -path /next -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache \
    -o -path /var/log -o -path /root \) -prune -o -print |
    grep -vE '^/etc/((passwd|group|shadow|gshadow)-|\.pwd\.lock)$' | sort
}
# The lines that only the second of two lists has have to be the expected ones.
only_new() { # WHAT OLD NEW EXPECTED
  local left
  left=$(comm -13 "$2" "$3")
  [ "$left" = "$4" ] || fail "$1: expected to find '$4', found '$left'"
}

step "dependencies"
echo 'force-unsafe-io' >/etc/dpkg/dpkg.cfg.d/unsafe
apt update
depends=$(for package in /packages/*.deb; do dpkg-deb -f "$package" Depends; done |
  tr ',' '\n' | sed 's/^ *//' | grep -v '^libsimm0 ' | sort -u | paste -sd,)
apt satisfy "$depends"
paths >/tmp/before

step "installation"
apt install /packages/*.deb
names=$(for package in /packages/*.deb; do dpkg-deb -f "$package" Package; done)
for name in $names; do
  [ -z "$(dpkg --verify "$name")" ] || fail "$name differs from its checksums"
  for file in copyright changelog.Debian.gz; do
    [ -s "/usr/share/doc/$name/$file" ] || fail "$name has no $file"
  done
done
[ "$(simmd --version)" = "simmd $version" ] || fail "simmd --version: $(simmd --version)"
simmctl --version | grep -q "$version" || fail "simmctl --version: $(simmctl --version)"
for page in man1/simmctl.1 man1/simm-bench.1 man1/simm-demo.1 man8/simmd.8; do
  [ -s "/usr/share/man/$page.gz" ] || fail "no manual page $page"
done
if dpkg-query -W simm-kubernetes >/dev/null 2>&1; then
  said=$(simm-device-plugin --version)
  [ "$said" = "simm-device-plugin $version" ] || fail "simm-device-plugin --version: $said"
  [ -s /usr/share/man/man8/simm-device-plugin.8.gz ] || fail "no page of simm-device-plugin"
fi
[ -s /usr/share/bash-completion/completions/simmctl ] || fail "no completion of simmctl"
conffiles=$(cat /var/lib/dpkg/info/simm.conffiles)
[ -n "$conffiles" ] || fail "no configuration in /etc/simm"
for file in $conffiles; do
  role=$(basename "$file" .json)
  quietly simmd "$role" --check-config --config "$file"
done
for unit in node storage manager adopt; do
  [ -s "/usr/lib/systemd/system/simm-$unit.service" ] || fail "no simm-$unit.service"
done
dpkg-query -W -f='${Recommends}' simm | grep -q libibverbs1 || fail "RDMA's library is not named"
getent passwd simm >/dev/null || fail "no user simm"
[ "$(stat -c %U /run/simm)" = simm ] || fail "/run/simm is not simm's"
! grep -lz '^simmd' /proc/[0-9]*/cmdline 2>/dev/null || fail "the installation started a daemon"

step "a daemon, and programs that use it"
mkdir /tmp/run
echo '{"run_directory": "/tmp/run", "node": {"pool_bytes": 134217728}}' >/tmp/simmd.json
simmd all --config /tmp/simmd.json >/tmp/simmd.log 2>&1 &
daemon=$!
for _ in $(seq 300); do
  [ -S /tmp/run/simm.sock ] && break
  sleep 0.1
done
simmctl --admin /tmp/run/admin.sock status || fail "simmctl status: $(cat /tmp/simmd.log)"
export SIMM_SOCKET=/tmp/run/simm.sock
for program in hello_c hello_cpp; do
  said=$("/packages/$program") || fail "$program: $said"
  [ "$(head -1 <<<"$said")" = hello ] || fail "$program said '$said'"
done
if [ -n "$SIMM_HAS_PYTHON" ]; then
  step "python3-simm"
  python3 -m simm || fail "python3 -m simm"
  python3 /packages/hello.py || fail "put and get by simm.kv"
  plugin=$(python3 -c 'from importlib.metadata import entry_points
print(*[entry.value for entry in entry_points(group="sglang.srt.plugins", name="simm")])')
  [ "$plugin" = simm.sglang.repair:install ] || fail "the plugin for SGLang is: '$plugin'"
fi
kill -TERM "$daemon"
wait "$daemon" || fail "simmd ended with $?: $(cat /tmp/simmd.log)"

step "simm-demo"
simm-demo >/tmp/demo 2>/tmp/demo.log || { cat /tmp/demo.log; fail "simm-demo"; }
tail -1 /tmp/demo | grep -q '"bytes_wrong":0,' || fail "simm-demo: $(tail -1 /tmp/demo)"

step "upgrade"
changed=/etc/simm/node.json
echo "// Of the administrator." >>"$changed"
apt install /next/*.deb
[ "$(dpkg-query -W -f='${Version}' simm)" = "$version-2" ] || fail "not upgraded"
tail -1 "$changed" | grep -q administrator || fail "the upgrade has overwritten $changed"
tail -1 /etc/simm/storage.json | grep -q "next version" ||
  fail "the upgrade has kept an old /etc/simm/storage.json, which nobody had changed"

step "removal"
# shellcheck disable=SC2086  # names are words
apt remove $names
paths >/tmp/removed
only_new "after the removal" /tmp/before /tmp/removed \
  "$({ echo /etc/simm; echo "$conffiles"; } | sort)"

step "purge"
echo secret >/etc/simm/cluster.secret
mkdir -p /var/lib/simm-manager
# shellcheck disable=SC2086
quietly dpkg --purge $names
paths >/tmp/purged
only_new "after the purge" /tmp/before /tmp/purged ""
[ ! -e /run/simm ] || fail "the purge leaves /run/simm"
