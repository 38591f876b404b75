#!/usr/bin/env bash
# Installs what scripts/packages.txt lists. Does nothing (and asks nothing) when all of it is there.
# A line "a|b" means the first of the two that the distribution has.
set -euo pipefail
cd "$(dirname "$0")"

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

missing=()
while read -r line; do
  line=${line%%#*}
  line=${line//[[:space:]]/}
  [ -n "$line" ] || continue
  IFS='|' read -ra names <<<"$line"
  found=0
  for name in "${names[@]}"; do
    if is_installed "$name"; then found=1; break; fi
  done
  [ "$found" = 1 ] || missing+=("$line")
done <packages.txt
[ ${#missing[@]} -gt 0 ] || exit 0

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
as_root apt-get update -q
wanted=()
for line in "${missing[@]}"; do
  IFS='|' read -ra names <<<"$line"
  chosen=${names[0]}
  for name in "${names[@]}"; do
    if apt-cache show "$name" >/dev/null 2>&1; then chosen=$name; break; fi
  done
  wanted+=("$chosen")
done
echo "installing: ${wanted[*]}"
# Installed for its programs: Debian starts what it installs, where there is a service manager.
had_prometheus=0
is_installed prometheus && had_prometheus=1
as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${wanted[@]}"
if [ "$had_prometheus" = 0 ] && [ -d /run/systemd/system ] && is_installed prometheus; then
  as_root systemctl disable --now prometheus
fi
