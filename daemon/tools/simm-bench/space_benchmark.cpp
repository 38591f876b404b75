#include "daemon/tools/simm-bench/space_benchmark.h"

#include <utility>

#include "daemon/tools/simm-bench/aliased_memory.h"
#include "daemon/tools/simm-bench/memory_figures.h"
#include "daemon/tools/simm-bench/page_sizes.h"
#include "daemon/tools/simm-bench/store_traffic.h"

namespace simm::bench {
namespace {

Outcome measure(const PageSizes& sizes, const SpaceOptions& options, ResultPrinter& printer) {
  const std::uint64_t before = private_bytes();
  auto arena = AliasedMemory::map(options.arena_bytes);
  if (!arena) return std::move(arena).error();
  auto store = store::Store::create(store::StoreConfig{}, arena->bytes());
  if (!store) return std::move(store).error();
  StoreTraffic traffic(**store, options.seed);
  const auto arena_bytes = static_cast<double>((*store)->stats().arena_bytes);
  traffic.put(static_cast<std::uint64_t>(options.rounds * arena_bytes),
              [&](base::SeededRandom& random) { return sizes.next(random); });
  const SpaceUse use = traffic.take_use();
  const std::uint64_t tables = private_bytes() - before;
  const double memory = arena_bytes + static_cast<double>(tables);
  Result result;
  result.name = "store.efficiency";
  result.unit = "1";
  result.value = use.payload_bytes_mean() / memory;
  result.params = {
      {"sizes", sizes.name},
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
  for (const PageSizes& sizes : known_page_sizes()) {
    const Outcome measured = measure(sizes, options, printer);
    if (!measured) return measured;
  }
  return Done{};
}

}  // namespace simm::bench
