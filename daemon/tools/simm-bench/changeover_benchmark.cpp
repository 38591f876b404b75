#include "daemon/tools/simm-bench/changeover_benchmark.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/tools/simm-bench/aliased_memory.h"
#include "daemon/tools/simm-bench/memory_figures.h"
#include "daemon/tools/simm-bench/page_sizes.h"
#include "daemon/tools/simm-bench/store_traffic.h"

namespace simm::bench {
namespace {

// Neighbours have no length class in common: that is how pages of old and new are told apart.
constexpr const char* kModels[] = {"deepseek_mla", "dsa_both", "page_of_1_token_20k", "mamba_72m",
                                   "deepseek_mla"};
constexpr std::uint32_t kSamplesPerArena = 16;
// Back is who stays less than so much below a store that never held anything else.
constexpr double kBackWithin = 0.005;

// What was seen while a sixteenth of the arena was put.
struct Sample {
  double efficiency;               // mean
  double efficiency_least;         // of a moment
  std::uint64_t stranded_bytes;    // free, in holes too short for any page of the new model
  std::uint64_t short_hole_bytes;  // free, in holes too short for its longest
  std::uint64_t new_bytes;         // payloads of the new model, at its end
  double evictions_per_put;        // mean
  std::uint64_t evictions_per_put_max;
  double moved_per_put_byte;
  std::uint64_t waits;
};

std::uint64_t bytes_of(const store::StoreStats& stats, const PageSizes& sizes) {
  std::set<std::size_t> classes;
  for (const Lengths& range : sizes.ranges) {
    classes.insert(store::StoreSpectrum::length_class(range.least));
  }
  std::uint64_t sum = 0;
  for (const std::size_t one : classes) sum += stats.spectrum.bytes[one];
  return sum;
}

// A store, what is put into it, and how much memory both take.
class MeasuredStore {
public:
  static Expected<MeasuredStore> make(const ChangeoverOptions& options) {
    const std::uint64_t before = private_bytes();
    auto arena = AliasedMemory::map(options.arena_bytes);
    if (!arena) return std::move(arena).error();
    auto store = store::Store::create(store::StoreConfig{}, arena->bytes());
    if (!store) return std::move(store).error();
    return MeasuredStore(std::move(*arena), std::move(*store), before, options.seed);
  }

  // Puts a sixteenth of the arena.
  Sample put(const PageSizes& sizes) {
    const std::uint64_t first = traffic_->objects_put();
    traffic_->put(arena_.bytes().size() / kSamplesPerArena,
                  [&](base::SeededRandom& random) { return sizes.next(random); });
    const auto puts = static_cast<double>(traffic_->objects_put() - first);
    const SpaceUse use = traffic_->take_use();
    const store::StoreStats stats = store_->stats();
    const double memory =
        static_cast<double>(stats.arena_bytes) + static_cast<double>(private_bytes() - before_);
    Sample seen{};
    seen.efficiency = use.payload_bytes_mean() / memory;
    seen.efficiency_least = static_cast<double>(use.payload_bytes_least) / memory;
    seen.stranded_bytes = store_->short_hole_bytes(sizes.least());
    seen.short_hole_bytes = store_->short_hole_bytes(sizes.most());
    seen.new_bytes = bytes_of(stats, sizes);
    seen.evictions_per_put = static_cast<double>(use.evictions) / puts;
    seen.evictions_per_put_max = use.evictions_max;
    seen.moved_per_put_byte = static_cast<double>(use.moved_bytes) /
                              static_cast<double>(std::max(std::uint64_t{1}, use.put_bytes));
    seen.waits = use.waits;
    return seen;
  }
  std::vector<Sample> put_rounds(const PageSizes& sizes, std::uint32_t rounds) {
    traffic_->change_over();
    std::vector<Sample> samples;
    for (std::uint32_t i = 0; i < rounds * kSamplesPerArena; ++i) samples.push_back(put(sizes));
    return samples;
  }
  [[nodiscard]] const char* audit() const { return store_->audit(); }

private:
  MeasuredStore(AliasedMemory arena, std::unique_ptr<store::Store> store, std::uint64_t before,
                std::uint64_t seed)
      : arena_(std::move(arena)),
        store_(std::move(store)),
        traffic_(std::make_unique<StoreTraffic>(*store_, seed)),
        before_(before) {}

  AliasedMemory arena_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<StoreTraffic> traffic_;
  std::uint64_t before_;
};

// Of the last half arena's worth of puts.
double efficiency_at_end(const std::vector<Sample>& samples) {
  constexpr std::size_t kLast = kSamplesPerArena / 2;
  double sum = 0;
  for (std::size_t i = samples.size() - kLast; i < samples.size(); ++i) {
    sum += samples[i].efficiency;
  }
  return sum / kLast;
}

// Arenas' worth of puts after which it is back and stays; null: never.
nlohmann::json arenas_until_back(const std::vector<Sample>& samples, double alone) {
  std::size_t back = samples.size();
  while (back > 0 && samples[back - 1].efficiency >= alone - kBackWithin) --back;
  if (back == samples.size()) return nullptr;
  return static_cast<double>(back) / kSamplesPerArena;
}

nlohmann::json timeline_of(const std::vector<Sample>& samples) {
  nlohmann::json line = nlohmann::json::object();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = samples[i];
    line["put_arenas"].push_back(static_cast<double>(i + 1) / kSamplesPerArena);
    line["efficiency"].push_back(sample.efficiency);
    line["stranded_bytes"].push_back(sample.stranded_bytes);
    line["short_hole_bytes"].push_back(sample.short_hole_bytes);
    line["new_bytes"].push_back(sample.new_bytes);
    line["evictions_per_put"].push_back(sample.evictions_per_put);
    line["evictions_per_put_max"].push_back(sample.evictions_per_put_max);
    line["moved_per_put_byte"].push_back(sample.moved_per_put_byte);
  }
  return line;
}

void print_change(const ChangeoverOptions& options, const PageSizes& from, const PageSizes& to,
                  const std::vector<Sample>& samples, double alone, ResultPrinter& printer) {
  const auto most = [&](auto member) {
    const auto found =
        std::max_element(samples.begin(), samples.end(),
                         [&](const Sample& a, const Sample& b) { return a.*member < b.*member; });
    return (*found).*member;
  };
  double least = 1;
  std::uint64_t waits = 0;
  for (const Sample& sample : samples) {
    least = std::min(least, sample.efficiency_least);
    waits += sample.waits;
  }
  Result result;
  result.name = "store.changeover";
  result.unit = "1";
  result.value = efficiency_at_end(samples);
  result.baseline = alone;
  result.params = {{"from", from.name},
                   {"to", to.name},
                   {"arena_bytes", options.arena_bytes},
                   {"arenas_until_back", arenas_until_back(samples, alone)},
                   {"worst", least},
                   {"stranded_bytes_max", most(&Sample::stranded_bytes)},
                   {"stranded_bytes_end", samples.back().stranded_bytes},
                   {"short_hole_bytes_max", most(&Sample::short_hole_bytes)},
                   {"evictions_per_put_mean_max", most(&Sample::evictions_per_put)},
                   {"evictions_per_put_max", most(&Sample::evictions_per_put_max)},
                   {"moved_per_put_byte_max", most(&Sample::moved_per_put_byte)},
                   {"waits", waits},
                   {"timeline", timeline_of(samples)}};
  printer.print(result);
}

}  // namespace

Outcome measure_changeover(const ChangeoverOptions& options, ResultPrinter& printer) {
  auto store = MeasuredStore::make(options);
  if (!store) return std::move(store).error();
  PageSizes from = page_sizes_named(kModels[0]);
  store->put_rounds(from, options.rounds);
  for (std::size_t i = 1; i < std::size(kModels); ++i) {
    const PageSizes to = page_sizes_named(kModels[i]);
    const std::vector<Sample> samples = store->put_rounds(to, options.rounds);
    auto other = MeasuredStore::make(options);
    if (!other) return std::move(other).error();
    const double alone = efficiency_at_end(other->put_rounds(to, options.rounds));
    print_change(options, from, to, samples, alone, printer);
    from = to;
  }
  if (const char* wrong = store->audit()) return Error{Status::corrupt, wrong};
  return Done{};
}

}  // namespace simm::bench
