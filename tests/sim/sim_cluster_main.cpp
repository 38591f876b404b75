// sim_cluster: simulates clusters, one for each seed, until a promise is broken.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/cluster.h"

namespace {

using simm::sim::Cluster;
using simm::sim::LogMode;
using simm::sim::Scenario;

std::string program;
volatile std::uint64_t current_seed = 0;

void print_repeat_command() {
  std::fprintf(stderr, "repeat with: %s --seed %llu --verbose\n", program.c_str(),
               static_cast<unsigned long long>(current_seed));
}

// A SIMM_CHECK or a sanitizer: say which seed it was.
void on_abort(int) {
  std::fprintf(stderr, "violation of CHECK: the program aborted\n");
  print_repeat_command();
  std::_Exit(1);
}

struct Totals {
  std::uint64_t events = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t puts = 0;
  std::uint64_t maps = 0;
  std::uint64_t moved = 0;
  std::uint64_t copied = 0;
};

bool run_seed(std::uint64_t seed, LogMode mode, Totals& totals) {
  current_seed = seed;
  Cluster cluster(Scenario::draw(seed), mode);
  cluster.run();
  totals.events += cluster.events();
  totals.hits += cluster.history().hits();
  totals.misses += cluster.history().misses();
  totals.puts += cluster.history().puts_done();
  totals.maps += cluster.maps();
  totals.moved += cluster.history().moved();
  totals.copied += cluster.history().copied();
  if (mode == LogMode::everything) {
    std::printf("fingerprint %016llx\n", static_cast<unsigned long long>(cluster.fingerprint()));
  }
  if (cluster.report().clean()) return true;
  if (mode == LogMode::off) {
    // The same again, with the log on.
    Totals ignored;
    return run_seed(seed, LogMode::tail, ignored);
  }
  if (mode == LogMode::tail) cluster.log().print_tail();
  std::fprintf(stderr, "violation of %s: %s\n", cluster.report().promise().c_str(),
               cluster.report().text().c_str());
  print_repeat_command();
  return false;
}

// Two runs of a seed are the same run.
bool is_repeatable(std::uint64_t seed) {
  std::uint64_t fingerprints[2];
  for (std::uint64_t& fingerprint : fingerprints) {
    Cluster cluster(Scenario::draw(seed), LogMode::off);
    cluster.run();
    fingerprint = cluster.fingerprint();
  }
  if (fingerprints[0] == fingerprints[1]) return true;
  std::fprintf(stderr, "seed %llu does not repeat itself\n", static_cast<unsigned long long>(seed));
  return false;
}

int usage() {
  std::fprintf(stderr,
               "usage: %s [--seeds N] [--first S] [--seed S] [--verbose] [--repeatable]\n"
               "  --seeds N      how many seeds (200)\n"
               "  --first S      the first of them (1)\n"
               "  --seed S       only this one\n"
               "  --verbose      print every event\n"
               "  --repeatable   run each seed twice and compare the runs\n",
               program.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  std::uint64_t seeds = 200;
  std::uint64_t first = 1;
  LogMode mode = LogMode::off;
  bool repeatable = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--verbose") {
      mode = LogMode::everything;
    } else if (option == "--repeatable") {
      repeatable = true;
    } else if (option == "--seeds" || option == "--first" || option == "--seed") {
      char* end = nullptr;
      const std::uint64_t number = std::strtoull(value, &end, 10);
      if (*value == '\0' || *end != '\0') return usage();
      if (option == "--seeds") seeds = number;
      if (option != "--seeds") first = number;
      if (option == "--seed") seeds = 1;
      ++i;
    } else {
      return usage();
    }
  }
  std::signal(SIGABRT, on_abort);
  std::signal(SIGSEGV, on_abort);
  Totals totals;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    if (repeatable ? !is_repeatable(seed) : !run_seed(seed, mode, totals)) return 1;
  }
  if (repeatable) {
    std::printf("%llu seeds repeat themselves\n", static_cast<unsigned long long>(seeds));
    return 0;
  }
  std::printf(
      "%llu seeds: %llu events, %llu maps, %llu puts, %llu hits, %llu misses, %llu copies, "
      "%llu objects moved; no promise broken\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(totals.events),
      static_cast<unsigned long long>(totals.maps), static_cast<unsigned long long>(totals.puts),
      static_cast<unsigned long long>(totals.hits), static_cast<unsigned long long>(totals.misses),
      static_cast<unsigned long long>(totals.copied),
      static_cast<unsigned long long>(totals.moved));
  return 0;
}
