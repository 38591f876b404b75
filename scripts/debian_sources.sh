#!/usr/bin/env bash
# Prints what apt here has of the distribution itself, as lines of a sources.list, for mmdebstrap.
# Asks the mirrors first when apt has no lists.
set -euo pipefail

# shellcheck disable=SC1091
. /etc/os-release
sources() {
  # shellcheck disable=SC2016  # apt expands them
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT) #$(ORIGIN)' \
    'Created-By: Packages' | { grep -i "#$ID\$" || true; } | sed 's/ #.*//' | sort -u
}
[ -n "$(sources)" ] || apt-get update -qq >&2
[ -n "$(sources)" ] || { echo "apt has no source of $ID" >&2; exit 1; }
sources
