#!/usr/bin/env bash
# Installs what is missing, builds, and passes every test. tests/README.md says what is where.
#
#   scripts/test.sh [PART...]          these parts; without names all that have no other word below
#   scripts/test.sh --quick            what one runs before each commit
#   scripts/test.sh --long [PART...]   all parts, with ten times the rounds: takes hours
#
#   lint       tidy rules, formatting, clang-tidy
#   release    release build, all tests: unit, conformance, hostile, model, simulation, process
#   cost       what each call costs in instructions, system calls, sleeps and allocations
#   upgrade    daemons and clients beside those of the previous release
#   asan       ASan + UBSan, unity build, all tests again, with line coverage (floor below)
#   tsan       ThreadSanitizer, concurrent parts only
#   fuzz       every fuzz target for SIMM_FUZZ_SECONDS (15) seconds
#   compilers  g++-11 and clang accept everything
#   demo       scripts/demo.sh with --chaos, --etcd, --standalone and --python
#   packages   the Debian packages, installed, used, upgraded and purged in a bare chroot; archive
#              and wheel for other distributions, in a system that has only the C library
#   guest      in virtual machines (scripts/rdma-guest.sh): services under a real systemd, and RDMA
#              over soft RoCE
#   quick      --quick: tidy rules, formatting, release build, the tests that take seconds
#   seeds      --long: the simulation and its mutants under seeds that nobody chose
#   lifetimes  --long: a million random steps of a Python program that begins and ends all it can
#   soak       --long: one cluster under load for SIMM_SOAK_MINUTES (30), whose memory stays flat
#   size       --long: a daemon with ten million objects: put, read, killed, read, evicted
#   mutants    --long: bugs that a unit test, or one of Python's, has to see
#   page       --long: the status page in a real browser, whose pictures are left in build/page
#   roots      --long: both commands of the README on bare systems, as root and as a user
#   image      --long: the container image, made twice, and the pods of the chart in it
#
# SIMM_JOBS (2) bounds parallel compilation, SIMM_TEST_JOBS (two more) the tests that run at a
# time: they wait for half of their time. Of instrumented ones one more than SIMM_JOBS runs.
# The last lines are a table: how long each part took, how much of that was building, and its
# longest tests. Below the table is what failed.
set -uo pipefail
cd "$(dirname "$0")/.."
readonly all_parts=(lint release cost upgrade asan tsan fuzz compilers demo packages guest)
readonly long_parts=(seeds lifetimes soak size mutants page roots image)
readonly jobs=${SIMM_JOBS:-2}
readonly test_jobs=${SIMM_TEST_JOBS:-$((jobs + 2))}
readonly coverage_percent_min=95
readonly formatter_version=14
# How many times the work of random tests, kills and fuzzers is done.
times=1
# What one clone has compiled serves the next one, wherever it lies. The notes for gcov name the
# folder of the clone that compiled them; gcovr finds the sources nevertheless.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=gcno_cwd

# configure NAME cmake-arguments...: quiet unless it fails.
configure() {
  local log="build/$1.configure.log"
  cmake -Wno-dev "${@:2}" >"$log" 2>&1 || { cat "$log"; return 1; }
}

# compile cmake-build-arguments...: prints what is not progress.
compile() {
  local started=$SECONDS status
  cmake --build "$@" -j "$jobs" | grep -vE '^\[[0-9]+/[0-9]+\] '
  status=${PIPESTATUS[0]}
  building_s=$((building_s + SECONDS - started))
  return "$status"
}

build() { configure "$1" --preset "$1" && compile --preset "$1"; }

# in_memory COMMAND...: with a TMPDIR in memory, if there is room. A disk to which a build is still
# written holds up managers and etcd for seconds.
in_memory() {
  local status=0 directory available_kib
  available_kib=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)
  if ((${available_kib:-0} < 8 << 20)); then
    "$@"
    return
  fi
  directory=$(mktemp -d /dev/shm/t.XXXX) && chmod 1777 "$directory" || return 1
  TMPDIR=$directory "$@" || status=$?
  rm -rf "$directory"
  return "$status"
}

# run_tests PRESET ctest-arguments...: all tests of a build tree. Notes the longest three, and what
# those that failed have said.
run_tests() {
  local status=0 results=build/$1/tests.xml parallel=$test_jobs
  # Instrumented tests seldom wait: a third one beside two CPUs is enough.
  [ "$1" = release ] || parallel=$((parallel > jobs + 1 ? jobs + 1 : parallel))
  in_memory ctest --preset "$1" -j "$parallel" --no-tests=error --timeout $((900 * times)) \
    --output-junit tests.xml "${@:2}" || status=$?
  longest=$(python3 tests/tools/failures.py "$results" longest)
  [ "$status" = 0 ] || failures=$(python3 tests/tools/failures.py "$results" failed)
  return "$status"
}

house_rules() {
  python3 tests/tidy/tidy.py --self-test && python3 tests/tidy/tidy.py || return 1
  python3 tests/unit/unit_mutants.py --check && python3 tests/python/python_mutants.py --check ||
    return 1
  python3 tests/docs/check_names.py --self-test && python3 tests/docs/check_names.py || return 1
  python3 tests/docs/check_words.py --self-test && python3 tests/docs/check_words.py || return 1
  python3 tests/tools/failures.py --self-test || return 1
  # Versions differ in what they want: one decides.
  if clang-format --version | grep -q "version $formatter_version[.]"; then
    git ls-files '*.h' '*.cpp' '*.c' | xargs clang-format --dry-run --Werror || return 1
  else
    echo "lint: formatting SKIPPED: clang-format $formatter_version decides, here is" \
      "$(clang-format --version)"
  fi
}

part_lint() {
  house_rules || return 1
  # As a unity build: common headers are read once for sixteen files. The schema headers have to
  # exist before a checker can read what includes them.
  configure lint -S . -B build/lint -G Ninja -DCMAKE_BUILD_TYPE=Debug -DBUILD_TESTING=OFF \
    -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 &&
    compile build/lint --target generated || return 1
  python3 tests/tidy/clang_tidy.py build/lint "$jobs"
}

# rounds PERCENT COMMAND...: with so much of their usual work for random tests.
rounds() { SIMM_ROUNDS_PERCENT=$(($1 * times)) "${@:2}"; }
# blows KILLS PAUSES COMMAND...: with so many daemons killed and stopped.
blows() { SIMM_KILLS=$(($1 * times)) SIMM_PAUSES=$(($2 * times)) "${@:3}"; }

part_release() { build release && rounds 100 blows 50 20 run_tests release -LE lint; }

# What takes its time by waiting is done in full by the release part, and sampled elsewhere.
sampled() { SIMM_MANAGER_AWAY_MS=5000 blows 20 8 "$@"; }

# Left out: what takes long by waiting, by killing or by comparing with other builds.
part_quick() {
  house_rules && build release && rounds 20 sampled run_tests release -LE lint \
    -E '^(siege|sim_mutants|process_(network|partition)|(python|bench|install)_.*|simmctl_trace)$'
}

part_cost() {
  local status=0
  configure release --preset release &&
    compile --preset release --target simmd simmctl cost_client cost_manager cost_store || return 1
  python3 tests/cost/cost.py build/release/bin || status=$?
  [ "$status" = 77 ] || return "$status"
}

part_upgrade() {
  local previous status=0
  configure release --preset release && compile --preset release --target simmd simmctl || return 1
  previous=$(SIMM_JOBS=$jobs tests/upgrade/previous_release.sh build/previous) || status=$?
  if [ "$status" = 77 ]; then echo "upgrade: SKIPPED, see above"; return 0; fi
  [ "$status" = 0 ] && python3 tests/upgrade/upgrade_test.py "$previous" build/release/bin
}

part_asan() {
  local counts=$PWD/build/asan/counts
  build asan || return 1
  find build/asan -name '*.gcda' -delete
  GCOV_PREFIX=$counts rounds 20 sampled run_tests asan -LE 'lint|no_asan' && coverage "$counts"
}

# coverage COUNTS: lines of the parts that must not be wrong: the trust boundary, session, engine,
# store. COUNTS has a file for each object, named by its whole path, # for /; gcovr wants the file
# beside the object.
coverage() {
  local percent file
  while read -r file; do
    mv "$file" "build/asan/$(sed 's,.*#build#asan#,,; s,#,/,g' <<<"$file")" || return 1
  done < <(find "$1" -name '*.gcda')
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
    TSAN_OPTIONS=halt_on_error=1 rounds 30 sampled run_tests tsan -L concurrent
}

fuzz_one() {
  mkdir -p "build/fuzz/corpus/$(basename "$1")"
  "$1" -max_total_time="${SIMM_FUZZ_SECONDS:-15}" -print_final_stats=1 -rss_limit_mb=2048 \
    -artifact_prefix=build/fuzz/ "build/fuzz/corpus/$(basename "$1")" >"$1.log" 2>&1 ||
    { echo "FAILED $1"; tail -40 "$1.log"; return 1; }
  echo "$(basename "$1"): $(grep -oE 'number_of_executed_units: [0-9]+' "$1.log")"
}

part_fuzz() {
  configure fuzz --preset fuzz && compile --preset fuzz --target fuzzers || return 1
  export -f fuzz_one
  printf '%s\n' build/fuzz/bin/*_fuzz | xargs -P "$jobs" -I TARGET bash -c 'fuzz_one TARGET'
}

# All objects of a build directory, without linking them.
compile_objects() {
  local objects
  mapfile -t objects < <(ninja -C "$1" -t targets all | sed -nE 's/^(.*\.o): .*/\1/p')
  [ ${#objects[@]} -gt 0 ] && compile "$1" --target "${objects[@]}"
}

part_compilers() {
  local compiler compilers=(g++-11 clang++)
  if [ "$times" != 1 ]; then
    mapfile -t compilers < <(compgen -c | grep -E '^(g\+\+|clang\+\+)(-[0-9]+)?$' | sort -u)
  fi
  for compiler in "${compilers[@]}"; do
    if ! command -v "$compiler" >/dev/null; then
      echo "compilers: $compiler SKIPPED: this distribution has none"
      continue
    fi
    configure "$compiler" -S . -B "build/$compiler" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
      -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 &&
      compile_objects "build/$compiler" || return 1
    echo "$compiler: accepts everything"
  done
}

# Clusters whose daemons and whose managers die, everything in one process, and clients in Python.
part_demo() {
  scripts/demo.sh --chaos && scripts/demo.sh --etcd && scripts/demo.sh --standalone &&
    scripts/demo.sh --python
}

part_packages() {
  local status=0
  SIMM_JOBS=$jobs scripts/package.sh && tests/packages/packages_test.sh || return 1
  SIMM_JOBS=$jobs scripts/portable.sh || status=$?
  if [ "$status" = 77 ]; then return 0; fi  # what was skipped has said why
  [ "$status" = 0 ] &&
    TZ=Asia/Tokyo SIMM_JOBS=$jobs scripts/portable.sh build/portable-again &&
    tests/packages/portable_test.sh
}

part_guest() {
  configure release --preset release &&
    compile --preset release --target simmd simmctl simm-bench guest_client rdma_client \
      conformance conformance_rdma &&
    configure asan --preset asan && compile --preset asan --target conformance_rdma &&
    scripts/rdma-guest.sh --systemd tests/guest/services.sh "$PWD/build/release/bin" &&
    SIMM_GUEST_SECONDS=${SIMM_GUEST_SECONDS:-900} \
      scripts/rdma-guest.sh env SIMM_KILLS=$((times == 1 ? 6 : 100)) \
      SIMM_ROUNDS_PERCENT=$((times == 1 ? 40 : 400)) \
      tests/guest/rdma.sh "$PWD/build/release/bin" "$PWD/build/asan/bin"
}

part_seeds() {
  local first=${SIMM_SEED:-$((RANDOM * 32768 + RANDOM + 1000))}
  echo "seeds: SIMM_SEED=$first scripts/test.sh --long seeds"
  build release && build/release/bin/sim_cluster --seeds 5000 --first "$first" &&
    python3 tests/sim/check_mutants.py tests/sim/mutants.json build/release/bin 1000 "$first"
}

part_soak() {
  build release && PYTHONPATH=build/release/python:tests/python PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 tests/soak/soak.py "${SIMM_SOAK_MINUTES:-30}" build/release/bin
}

part_lifetimes() {
  build release && SIMM_TEST_SIMMD=$PWD/build/release/bin/simmd \
    PYTHONPATH=build/release/python PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 tests/python/lifetimes.py --long
}

part_size() {
  build release && SIMM_SIZE_OBJECTS=${SIMM_SIZE_OBJECTS:-10000000} build/release/bin/process_size
}

part_mutants() {
  python3 tests/unit/unit_mutants.py "$jobs" && build release &&
    python3 tests/python/python_mutants.py build/release
}

part_page() {
  local status=0
  configure release --preset release && compile --preset release --target simmd simmctl || return 1
  python3 tests/metrics/browser_test.py build/release/bin build/page || status=$?
  [ "$status" = 77 ] || [ "$status" = 0 ] || return "$status"  # what was skipped has said why
  python3 tests/tools/demo_page_test.py .
}

part_roots() { tests/roots/roots_test.sh bookworm trixie; }

part_image() { SIMM_JOBS=$jobs scripts/package.sh && tests/kubernetes/image_test.sh; }

# logged PART: runs it; what it prints is in build/PART.part.log as well.
logged() {
  local status=0 to_log tee_pid tries
  exec {to_log}> >(tee "build/$1.part.log")
  tee_pid=$!
  "part_$1" >&"$to_log" 2>&1 {to_log}>&- || status=$?
  exec {to_log}>&-
  # A process that a test left behind may hold the output for ever: nobody waits for that.
  for ((tries = 0; tries < 50; tries++)); do
    kill -0 "$tee_pid" 2>/dev/null || break
    sleep 0.1
  done
  return "$status"
}

usage() { sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//'; }
case "${1:-}" in
  --help | -h)
    usage
    exit 0
    ;;
  --quick) parts=(quick) ;;
  --long)
    times=10
    export SIMM_ETCD_LONG=1
    export SIMM_SIEGE_SECONDS=60 SIMM_HOSTILE_SECONDS=15
    export SIMM_FUZZ_SECONDS=${SIMM_FUZZ_SECONDS:-600}
    export SIMM_GUEST_SECONDS=${SIMM_GUEST_SECONDS:-3600}
    parts=("${@:2}")
    [ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}" "${long_parts[@]}")
    ;;
  *)
    parts=("$@")
    [ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
    ;;
esac
scripts/install_packages.sh $([ "$times" = 1 ] || echo --long) || exit 1
mkdir -p build
passed=0 failed=0 summary=() told=()
for part in "${parts[@]}"; do
  if ! declare -F "part_$part" >/dev/null; then
    echo "scripts/test.sh: no part '$part'; the parts are: ${all_parts[*]} ${long_parts[*]}" >&2
    exit 2
  fi
  echo "=== $part"
  started=$SECONDS building_s=0 longest='' failures=''
  verdict=passed
  logged "$part" || verdict=FAILED
  if [ "$verdict" = passed ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    told+=("=== $part: what failed" "${failures:-$(tail -n 20 "build/$part.part.log")}")
  fi
  summary+=("$(printf '%-10s %-7s %5d s  %5d s  %s' "$part" "$verdict" $((SECONDS - started)) \
    "$building_s" "$longest")")
  echo "=== $part $verdict after $((SECONDS - started)) s"
done
printf '%-10s %-7s %7s  %7s  %s\n' part verdict time building 'longest tests, s'
printf '%s\n' "${summary[@]}"
[ "$failed" = 0 ] || printf '%s\n' "${told[@]}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
