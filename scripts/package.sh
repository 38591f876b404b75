#!/usr/bin/env bash
# Builds release and makes the Debian packages of it: build/packages/*.deb. They are for the
# distribution that this machine runs. scripts/PACKAGES.md says what they hold.
#
#   scripts/package.sh
#
# SIMM_JOBS (all CPUs) bounds parallel compilation.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh
mkdir -p build
cmake --preset release -Wno-dev >build/release.configure.log 2>&1 ||
  { cat build/release.configure.log >&2; exit 1; }
# What is installed, and not the tests.
cmake --build --preset release -j "${SIMM_JOBS:-$(nproc)}" --target installed | tail -1
rm -rf build/packages
(cd build/release && cpack -G DEB >../packages.log 2>&1) || { cat build/packages.log >&2; exit 1; }
rm -rf build/packages/_CPack_Packages
ls build/packages/*.deb
