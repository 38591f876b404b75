#include "daemon/tools/simm-bench/index_benchmark.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "daemon/store/space/hash_index.h"
#include "daemon/store/space/reserved_memory.h"

namespace simm::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A bijection (the finalizer of SplitMix64): hashes as good as random, without a table of them.
std::uint64_t hash_of(std::uint32_t number) {
  std::uint64_t x = number + 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

class IndexRun {
public:
  IndexRun(store::HashIndex index, std::uint32_t entries) : index_(index), entries_(entries) {}

  // Operations, each of which returns how many of them found what they should.
  std::uint64_t insert() {
    for (std::uint32_t n = 1; n <= entries_; ++n) index_.insert(hash_of(n), n);
    return index_.entries();
  }
  std::uint64_t find() {
    // As a server does with a batch: it asks for the lines some keys ahead.
    constexpr std::uint32_t kAhead = 8;
    std::uint64_t found = 0;
    for (std::uint32_t i = 0; i < entries_; ++i) {
      index_.prefetch(hash_of(some(i + kAhead)));
      const std::uint32_t n = some(i);
      found += index_.find(hash_of(n), [n](std::uint32_t at) { return at == n; }) == n ? 1u : 0u;
    }
    return found;
  }
  // The oldest entry goes, a new one comes.
  std::uint64_t replace() {
    for (std::uint32_t n = 1; n <= entries_ / 2; ++n) {
      index_.remove(hash_of(n), n);
      index_.insert(hash_of(n + entries_), n);
    }
    return index_.entries();
  }
  [[nodiscard]] const store::HashIndex& index() const { return index_; }

private:
  // Every number once, in an order without sense: 1,000,003 is prime.
  [[nodiscard]] std::uint32_t some(std::uint32_t i) const {
    return static_cast<std::uint32_t>(std::uint64_t{i} * 1'000'003 % entries_) + 1;
  }

  store::HashIndex index_;
  std::uint32_t entries_;
};

}  // namespace

Outcome measure_index(std::uint32_t entries, ResultPrinter& printer) {
  auto memory = store::ReservedMemory::map(store::HashIndex::bytes_for(entries));
  if (!memory) return std::move(memory).error();
  IndexRun run(store::HashIndex(memory->data(), entries), entries);
  using Part = std::uint64_t (IndexRun::*)();
  struct Named {
    const char* name;
    Part part;
  };
  for (const Named& named : {Named{"insert", &IndexRun::insert}, Named{"find", &IndexRun::find},
                             Named{"remove_and_insert", &IndexRun::replace}}) {
    const auto start = Clock::now();
    const std::uint64_t right = (run.*named.part)();
    const std::chrono::duration<double> took = Clock::now() - start;
    if (right != entries) return Error{Status::corrupt, std::string("index: ") + named.name};
    Result speed;
    speed.name = "store.index_ops";
    speed.unit = "1/s";
    speed.value = static_cast<double>(entries) / std::max(took.count(), 1e-9);
    speed.params = {{"operation", named.name}, {"entries", entries}};
    printer.print(speed);
  }
  Result bytes;
  bytes.name = "store.index_bytes";
  bytes.unit = "B";
  bytes.value = static_cast<double>(run.index().used_bytes()) / entries;
  bytes.params = {{"entries", entries}};
  printer.print(bytes);
  return Done{};
}

}  // namespace simm::bench
