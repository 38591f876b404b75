#!/usr/bin/env bash
# Installs what scripts/packages.txt lists. Does nothing (and asks nothing) when all of it is there.
# A line "a|b" means the first of the two that the distribution has; "a?" is left out, aloud, where
# the distribution has no a; "a*" is installed with the argument --long only.
set -euo pipefail
cd "$(dirname "$0")"

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

missing=()
while read -r line; do
  line=${line%%#*}
  line=${line//[[:space:]]/}
  [ -n "$line" ] || continue
  if [ "${line%\*}" != "$line" ]; then
    [ "${1:-}" = --long ] || continue
    line=${line%\*}
  fi
  IFS='|' read -ra names <<<"${line%\?}"
  found=0
  for name in "${names[@]}"; do
    if is_installed "$name"; then found=1; break; fi
  done
  [ "$found" = 1 ] || missing+=("$line")
done <packages.txt
[ ${#missing[@]} -gt 0 ] || exit 0

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Fills `wanted` with what the distribution has of `missing`, and `unknown` with what it has not:
# apt-get would take such a name for a pattern, and install what matches it.
choose() {
  local line name names chosen
  wanted=() unknown=()
  for line in "${missing[@]}"; do
    IFS='|' read -ra names <<<"${line%\?}"
    chosen=
    for name in "${names[@]}"; do
      if [ -n "$(apt-cache show "$name" 2>/dev/null)" ]; then chosen=$name; break; fi
    done
    if [ -n "$chosen" ]; then wanted+=("$chosen"); else unknown+=("$line"); fi
  done
}

# The mirrors are not asked at every run for what is optional and not there.
for line in "${missing[@]}"; do
  [ "${line%\?}" != "$line" ] || { as_root apt-get update -q; break; }
done
choose
for line in "${unknown[@]}"; do
  if [ "${line%\?}" = "$line" ]; then
    echo "scripts/packages.txt: apt finds no package '$line': give apt a source that has it" >&2
    exit 1
  fi
  echo "left out: this distribution has no ${line%\?}"
done
[ ${#wanted[@]} -gt 0 ] || exit 0
echo "installing: ${wanted[*]}"
# Installed for its programs: Debian starts what it installs, where there is a service manager.
had_prometheus=0
is_installed prometheus && had_prometheus=1
as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${wanted[@]}"
if [ "$had_prometheus" = 0 ] && [ -d /run/systemd/system ] && is_installed prometheus; then
  as_root systemctl disable --now prometheus
fi
