#include "libclient/tools/simm-bench/space_benchmark.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "libclient/tools/simm-bench/aliased_memory.h"
#include "libclient/tools/simm-bench/store_traffic.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

// A range of lengths, all equally likely, often of one.
struct Lengths {
  std::uint64_t least;
  std::uint64_t most;
};
struct SpaceCase {
  std::string name;
  std::vector<Lengths> sizes;  // equally likely
};

Lengths only(std::uint64_t bytes) {
  return {bytes, bytes};
}

// What deployments store: pages of 64 tokens of known models, states of Mamba layers, pages of one
// token.
std::vector<SpaceCase> space_cases() {
  const std::vector<SpaceCase> models = {
      {"deepseek_mla", {only(4'497'408)}},
      {"dsa_fp8", {only(2'561'024)}},
      {"dsa_indexer", {only(515'328)}},
      {"llama_8b", {only(4'194'304)}},
      {"llama_70b_tp8", {only(1'310'720)}},
      {"qwen3_235b_tp8", {only(1'540'096)}},
      {"mamba_72m", {only(72 * kMiB)}},
      {"mamba_36m", {only(36 * kMiB)}},
      {"mamba_18m", {only(18 * kMiB)}},
      {"mamba_1740k", {only(1740 * kKiB + 819)}},
      {"mamba_430k", {only(430 * kKiB + 82)}},
      {"page_of_1_token_20k", {only(20 * kKiB)}},
      {"page_of_1_token_160k", {only(160 * kKiB)}},
  };
  std::vector<SpaceCase> cases = models;
  SpaceCase mixed{"mixed", {{20 * kKiB, 160 * kKiB}}};
  for (const SpaceCase& model : models) {
    if (model.sizes[0].least > 160 * kKiB) mixed.sizes.push_back(model.sizes[0]);
  }
  cases.push_back({"dsa_both", {only(2'561'024), only(515'328)}});
  cases.push_back({"page_of_1_token_any", {{20 * kKiB, 160 * kKiB}}});
  cases.push_back(mixed);
  cases.push_back({"uniform_4k_8m", {{4 * kKiB, 8 * kMiB}}});
  return cases;
}

std::uint64_t next_length(const SpaceCase& c, base::SeededRandom& random) {
  const Lengths& range = c.sizes[random.below(c.sizes.size())];
  return range.least + random.below(range.most - range.least + 1);
}

// Private memory of this process; the aliased arena is none.
std::uint64_t private_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::uint64_t kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib * kKiB;
  }
  return 0;
}

Outcome measure(const SpaceCase& c, const SpaceOptions& options, ResultPrinter& printer) {
  const std::uint64_t before = private_bytes();
  auto arena = AliasedMemory::map(options.arena_bytes);
  if (!arena) return std::move(arena).error();
  auto store = store::Store::create(store::StoreConfig{}, arena->bytes());
  if (!store) return std::move(store).error();
  StoreTraffic traffic(**store, options.seed);
  const auto arena_bytes = static_cast<double>((*store)->stats().arena_bytes);
  traffic.put(static_cast<std::uint64_t>(options.rounds * arena_bytes),
              [&](base::SeededRandom& random) { return next_length(c, random); });
  const SpaceUse use = traffic.take_use();
  const std::uint64_t tables = private_bytes() - before;
  const double memory = arena_bytes + static_cast<double>(tables);
  Result result;
  result.name = "store.efficiency";
  result.unit = "1";
  result.value = use.payload_bytes_mean() / memory;
  result.params = {
      {"sizes", c.name},
      {"arena_bytes", (*store)->stats().arena_bytes},
      {"table_bytes", tables},
      {"objects", (*store)->stats().objects},
      {"worst", static_cast<double>(use.payload_bytes_least) / memory},
      {"evictions_per_put_max", use.evictions_max},
      {"moved_per_put_byte", use.put_bytes == 0 ? 0
                                                : static_cast<double>(use.moved_bytes) /
                                                      static_cast<double>(use.put_bytes)},
      {"waits", use.waits}};
  printer.print(result);
  return Done{};
}

}  // namespace

Outcome measure_space(const SpaceOptions& options, ResultPrinter& printer) {
  for (const SpaceCase& c : space_cases()) {
    const Outcome measured = measure(c, options, printer);
    if (!measured) return measured;
  }
  return Done{};
}

}  // namespace simm::bench
