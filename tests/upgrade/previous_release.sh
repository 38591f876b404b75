#!/usr/bin/env bash
# Builds the programs of the previous release, and prints the folder that they are in:
#
#   previous_release.sh BUILD_FOLDER
#
# The release is a commit of this repository. Its sources come out of the history: exit status 77
# says that a shallow clone lacks them. What was built once is used again.
set -euo pipefail
readonly commit=12b29b1228420802fc2b2e57b9c26f73c4180d7f
cd "$(dirname "$0")/../.."
mkdir -p "$1"
folder=$(cd "$1" && pwd)/$commit
if [ ! -x "$folder/build/release/bin/simmctl" ]; then
  git rev-parse -q --verify "$commit^{commit}" >/dev/null || {
    echo "the history lacks the previous release $commit: git fetch --unshallow" >&2
    exit 77
  }
  mkdir -p "$folder/build"
  git archive "$commit" | tar -x -C "$folder"
  cd "$folder"
  export CCACHE_BASEDIR=$folder CCACHE_NOHASHDIR=1
  {
    cmake --preset release -Wno-dev -DBUILD_TESTING=OFF
    cmake --build --preset release -j "${SIMM_JOBS:-2}" --target simmd simmctl
  } >build/log 2>&1 || { tail -20 build/log >&2; exit 1; }
fi
echo "$folder/build/release/bin"
