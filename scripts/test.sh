#!/usr/bin/env bash
# Installs what is missing, builds, and passes every test. `scripts/test.sh PART...` runs parts.
#
#   lint       tidy rules, formatting, clang-tidy
#   release    release build, all tests: unit, conformance, hostile, model, simulation, process
#   upgrade    daemons and clients beside those of the previous release
#   asan       ASan + UBSan, unity build, all tests again, with line coverage (floor below)
#   tsan       ThreadSanitizer, concurrent parts only
#   fuzz       every fuzz target for SIMM_FUZZ_SECONDS (20) seconds
#   compilers  g++-11 and clang accept everything
#   demo       scripts/demo.sh --quick, with --chaos, with --standalone and with --python
#   packages   the Debian packages, installed, used, upgraded and purged in a bare chroot
#   guest      in virtual machines (scripts/rdma-guest.sh): services under a real systemd, and RDMA
#              over soft RoCE
#
# SIMM_JOBS (2) bounds parallel compilation. Each part prints its time.
set -uo pipefail
cd "$(dirname "$0")/.."
readonly all_parts=(lint release upgrade asan tsan fuzz compilers demo packages guest)
readonly jobs=${SIMM_JOBS:-2}
readonly coverage_percent_min=85
readonly formatter_version=14
# What one clone has compiled serves the next one, wherever it lies.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# configure NAME cmake-arguments...: quiet unless it fails.
configure() {
  local log="build/$1.configure.log"
  cmake -Wno-dev "${@:2}" >"$log" 2>&1 || { cat "$log"; return 1; }
}

# compile cmake-build-arguments...: prints what is not progress.
compile() {
  cmake --build "$@" -j "$jobs" | grep -vE '^\[[0-9]+/[0-9]+\] '
  return "${PIPESTATUS[0]}"
}

build() { configure "$1" --preset "$1" && compile --preset "$1"; }

part_lint() {
  python3 tests/tidy/tidy.py --self-test && python3 tests/tidy/tidy.py || return 1
  # Versions differ in what they want: one decides.
  if clang-format --version | grep -q "version $formatter_version[.]"; then
    git ls-files '*.h' '*.cpp' '*.c' | xargs clang-format --dry-run --Werror || return 1
  else
    echo "lint: formatting SKIPPED: clang-format $formatter_version decides, here is" \
      "$(clang-format --version)"
  fi
  # As a unity build: common headers are read once for sixteen files. The schema headers have to
  # exist before a checker can read what includes them.
  configure lint -S . -B build/lint -G Ninja -DCMAKE_BUILD_TYPE=Debug -DBUILD_TESTING=OFF \
    -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 &&
    compile build/lint --target simm_schema simm_cluster_schema || return 1
  grep -oE '"file": "[^"]+\.(cxx|cpp)"' build/lint/compile_commands.json | cut -d '"' -f 4 |
    sort -u | xargs -P "$jobs" -n 1 \
      clang-tidy --quiet --checks=-bugprone-suspicious-include -p build/lint 2>/dev/null
}

part_release() { build release && ctest --preset release -j "$jobs" -LE lint; }

part_upgrade() {
  local previous status=0
  configure release --preset release && compile --preset release --target simmd simmctl || return 1
  previous=$(SIMM_JOBS=$jobs tests/upgrade/previous_release.sh build/previous) || status=$?
  if [ "$status" = 77 ]; then echo "upgrade: SKIPPED, see above"; return 0; fi
  [ "$status" = 0 ] && python3 tests/upgrade/upgrade_test.py "$previous" build/release/bin
}

# What takes its time by waiting is done in full by the release part, and sampled elsewhere.
sampled() { SIMM_KILLS=20 SIMM_PAUSES=8 SIMM_MANAGER_AWAY_MS=5000 "$@"; }

part_asan() {
  build asan && find build/asan -name '*.gcda' -delete &&
    SIMM_ROUNDS_PERCENT=30 sampled ctest --preset asan -j "$jobs" -LE 'lint|no_asan' && coverage
}

# Lines of the parts that must not be wrong: the trust boundary, session, engine, store.
coverage() {
  local percent
  gcovr --root . --gcov-ignore-parse-errors --exclude-unreachable-branches \
    --filter 'ipc/' --filter 'daemon/session/' --filter 'daemon/engine/' --filter 'daemon/store/' \
    --json-summary build/coverage.json --txt build/coverage.txt build/asan >/dev/null 2>&1
  percent=$(python3 -c "import json; print(json.load(open('build/coverage.json'))['line_percent'])")
  [ -n "$percent" ] || return 1
  echo "line coverage of ipc, session, engine, store: $percent % (at least $coverage_percent_min)"
  python3 -c "import sys; sys.exit(not $percent >= $coverage_percent_min)"
}

part_tsan() {
  configure tsan --preset tsan && compile --preset tsan --target concurrent_tests &&
    TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/tsan_suppressions.txt" \
      sampled ctest --preset tsan -j "$jobs" -L concurrent --no-tests=error
}

fuzz_one() {
  mkdir -p "build/fuzz/corpus/$(basename "$1")"
  "$1" -max_total_time="${SIMM_FUZZ_SECONDS:-20}" -print_final_stats=1 -rss_limit_mb=2048 \
    -artifact_prefix=build/fuzz/ "build/fuzz/corpus/$(basename "$1")" >"$1.log" 2>&1 ||
    { echo "FAILED $1"; tail -40 "$1.log"; return 1; }
  echo "$(basename "$1"): $(grep -oE 'number_of_executed_units: [0-9]+' "$1.log")"
}

part_fuzz() {
  configure fuzz --preset fuzz && compile --preset fuzz --target fuzzers || return 1
  export -f fuzz_one
  printf '%s\n' build/fuzz/bin/*_fuzz | xargs -P "$jobs" -I TARGET bash -c 'fuzz_one TARGET'
}

# Prints, a line each, how the sources of a build directory are compiled, without the generating of
# code: what another compiler says of them is said before that.
checks_of() {
  python3 - "$1" <<'EOF'
import json, re, sys
for entry in json.load(open(f"{sys.argv[1]}/compile_commands.json")):
    command = re.sub(r"^\S*ccache ", "", re.sub(r" -o \S+", "", entry["command"]))
    print(f"cd '{entry['directory']}' && {command} -fsyntax-only")
EOF
}

part_compilers() {
  local compiler
  for compiler in g++-11 clang++; do
    if ! command -v "$compiler" >/dev/null; then
      echo "compilers: $compiler SKIPPED: this distribution has none"
      continue
    fi
    configure "$compiler" -S . -B "build/$compiler" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
      -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 &&
      compile "build/$compiler" --target simm_schema simm_cluster_schema &&
      checks_of "build/$compiler" | xargs -P "$jobs" -d '\n' -n 1 bash -c || return 1
    echo "$compiler: accepts everything"
  done
}

# A cluster whose daemons die, everything in one process, and clients in Python.
part_demo() {
  scripts/demo.sh --quick --chaos && scripts/demo.sh --quick --standalone &&
    scripts/demo.sh --quick --python
}

part_packages() { SIMM_JOBS=$jobs scripts/package.sh && tests/packages/packages_test.sh; }

part_guest() {
  configure release --preset release &&
    compile --preset release --target simmd simmctl simm-bench guest_client rdma_client \
      conformance conformance_rdma &&
    configure asan --preset asan && compile --preset asan --target conformance_rdma &&
    scripts/rdma-guest.sh --systemd tests/guest/services.sh "$PWD/build/release/bin" &&
    SIMM_GUEST_SECONDS=${SIMM_GUEST_SECONDS:-900} \
      scripts/rdma-guest.sh tests/guest/rdma.sh "$PWD/build/release/bin" "$PWD/build/asan/bin"
}

scripts/install_packages.sh || exit 1
mkdir -p build
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
passed=0 failed=0 summary=()
for part in "${parts[@]}"; do
  if ! declare -F "part_$part" >/dev/null; then
    echo "scripts/test.sh: no part '$part'; the parts are: ${all_parts[*]}" >&2
    exit 2
  fi
  echo "=== $part"
  started=$SECONDS
  verdict=passed
  "part_$part" || verdict=FAILED
  if [ "$verdict" = passed ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  summary+=("$(printf '%-10s %-7s %5d s' "$part" "$verdict" $((SECONDS - started)))")
  echo "=== $part $verdict after $((SECONDS - started)) s"
done
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
