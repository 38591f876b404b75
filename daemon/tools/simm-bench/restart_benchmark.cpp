#include "daemon/tools/simm-bench/restart_benchmark.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/store/space/reserved_memory.h"
#include "daemon/store/store.h"
#include "daemon/tools/simm-bench/block_key.h"
#include "ipc/mapping.h"
#include "ipc/memory_file.h"

namespace simm::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr base::TimeNs kNowNs = 1000 * base::kNsPerSecond;

// The memory of one shard. Payloads are zeros that nobody wrote, and so cost nothing; the table is
// a file, which is mapped anew for each life.
class Shard {
public:
  static Expected<Shard> make(std::uint64_t arena_bytes) {
    auto payload = store::ReservedMemory::map(arena_bytes);
    if (!payload) return std::move(payload).error();
    ipc::MemoryFileSpec spec;
    spec.name = "simm-bench-table";
    spec.bytes = store::Store::table_bytes_for(store::StoreConfig{}, arena_bytes);
    auto table = ipc::MemoryFile::create(spec);
    if (!table) return std::move(table).error();
    return Shard(std::move(*payload), std::move(*table));
  }

  // A store with all that it can have of an earlier life, read back by `crew`.
  Expected<std::unique_ptr<store::Store>> open(store::Contents contents,
                                               store::RecoveryCrew& crew) {
    auto mapping = ipc::Mapping::map(table_.fd(), 0, table_.bytes());
    if (!mapping) return std::move(mapping).error();
    mapping_ = std::move(*mapping);
    // As a daemon does.
    static_cast<void>(::madvise(mapping_.data(), mapping_.bytes(), MADV_HUGEPAGE));
    store::ShardMemory memory;
    memory.payload = {payload_.data(), payload_.bytes()};
    memory.table = {mapping_.data(), mapping_.bytes()};
    memory.contents = contents;
    memory.now_ns = kNowNs;
    auto made = store::Store::open(store::StoreConfig{}, memory);
    if (!made) return made;
    if (Outcome read = (*made)->recover(memory, crew); !read) return std::move(read).error();
    return made;
  }
  // Memory that the table has now.
  [[nodiscard]] std::uint64_t table_bytes() const {
    struct stat status {};
    return ::fstat(table_.fd(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512
                                              : 0;
  }

private:
  Shard(store::ReservedMemory payload, ipc::MemoryFile table)
      : payload_(std::move(payload)), table_(std::move(table)) {}

  store::ReservedMemory payload_;
  ipc::MemoryFile table_;
  ipc::Mapping mapping_;
};

// Puts objects of one length until no more fit without eviction; how many.
std::uint64_t fill(store::Store& store, std::uint64_t length, std::uint64_t digest) {
  std::uint64_t count = 0;
  while (store.stats().free_bytes >= length + store::ExtentAllocator::kGranuleBytes) {
    const BlockKey key(count);
    const store::WriteResult begun = store.begin_write({key.key(), length, {}, 0}, kNowNs);
    if (begun.start != store::WriteStart::reserved) break;
    store.publish(begun.reservation, digest, 1, kNowNs);
    ++count;
  }
  return count;
}

// Replaces every object once, some at a time, in an order without sense (1,000,003 is prime). So
// neighbours in memory were not put one after the other.
bool churn(store::Store& store, std::uint64_t objects, std::uint64_t length, std::uint64_t digest) {
  constexpr std::uint64_t kSome = 1000;
  for (std::uint64_t at = 0; at < objects; at += kSome) {
    const std::uint64_t end = std::min(objects, at + kSome);
    for (std::uint64_t i = at; i < end; ++i) {
      const BlockKey key(i * 1'000'003 % objects);
      if (!store.remove(key.key(), kNowNs)) return false;
    }
    for (std::uint64_t i = at; i < end; ++i) {
      const BlockKey key(i * 1'000'003 % objects);
      const store::WriteResult begun = store.begin_write({key.key(), length, {}, 0}, kNowNs);
      if (begun.start != store::WriteStart::reserved) return false;
      store.publish(begun.reservation, digest, 1, kNowNs);
    }
  }
  return true;
}

bool reads_first(store::Store& store) {
  const BlockKey key(0);
  store::ReadPin pin;
  if (store.begin_read(key.key(), 0, kNowNs, pin) != Status::ok) return false;
  const bool right = base::payload_digest(pin.bytes.data(), pin.bytes.size()) == pin.digest;
  if (right) store.note_verified(pin);
  store.end_read(pin);
  return right;
}

Outcome measure_length(std::uint64_t length, const RestartOptions& options,
                       ResultPrinter& printer) {
  auto shard = Shard::make(options.arena_bytes);
  if (!shard) return std::move(shard).error();
  std::uint64_t objects = 0;
  store::RecoveryCrew alone;
  {
    auto first = shard->open(store::Contents::fresh, alone);
    if (!first) return std::move(first).error();
    const std::vector<std::byte> zeros(length);
    objects = fill(**first, length, base::payload_digest(zeros.data(), zeros.size()));
  }
  std::vector<double> seconds;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    const auto start = Clock::now();
    auto store = shard->open(store::Contents::kept, alone);
    if (!store) return std::move(store).error();
    const bool right = reads_first(**store);
    const std::chrono::duration<double> took = Clock::now() - start;
    if (!right || (*store)->stats().recovered != objects) {
      return Error{Status::corrupt, "store.restart: objects are missing"};
    }
    seconds.push_back(took.count());
  }
  Result restart;
  restart.name = "store.restart";
  restart.unit = "s";
  restart.value = median_of(seconds);
  restart.params = {{"object_bytes", length},
                    {"objects", objects},
                    {"arena_bytes", options.arena_bytes},
                    {"shards", 1}};
  printer.print(restart);
  Result meta;
  meta.name = "store.meta_bytes";
  meta.unit = "B";
  meta.value = static_cast<double>(shard->table_bytes()) / static_cast<double>(objects);
  meta.params = {{"object_bytes", length}, {"objects", objects}, {"key_bytes", BlockKey::kBytes}};
  printer.print(meta);
  return Done{};
}

// Many small objects on all CPUs, in the order of their puts and in none.
Outcome measure_rate(const RestartOptions& options, ResultPrinter& printer) {
  constexpr std::uint64_t kLength = 4096;
  auto shard = Shard::make(options.small_objects * kLength);
  if (!shard) return std::move(shard).error();
  const std::vector<std::byte> zeros(kLength);
  const std::uint64_t digest = base::payload_digest(zeros.data(), zeros.size());
  std::uint64_t objects = 0;
  const std::uint32_t cpus = std::max(1u, std::thread::hardware_concurrency());
  for (const char* order : {"put", "none"}) {
    {
      store::RecoveryCrew crew(cpus);
      const bool fresh = objects == 0;
      auto store = shard->open(fresh ? store::Contents::fresh : store::Contents::kept, crew);
      if (!store) return std::move(store).error();
      if (fresh) {
        objects = fill(**store, kLength, digest);
      } else if (!churn(**store, objects, kLength, digest)) {
        return Error{Status::corrupt, "store.recovery: objects are missing"};
      }
    }
    std::vector<double> rates;
    std::vector<double> cpu_ns;
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
      store::RecoveryCrew crew(cpus);
      const std::clock_t cpu_start = std::clock();
      const auto start = Clock::now();
      auto store = shard->open(store::Contents::kept, crew);
      if (!store) return std::move(store).error();
      const std::chrono::duration<double> took = Clock::now() - start;
      const auto cpu = static_cast<double>(std::clock() - cpu_start);
      cpu_ns.push_back(cpu * 1e9 / CLOCKS_PER_SEC / static_cast<double>(objects));
      if ((*store)->stats().recovered != objects || !reads_first(**store)) {
        return Error{Status::corrupt, "store.recovery: objects are missing"};
      }
      rates.push_back(static_cast<double>(objects) / took.count());
    }
    Result rate;
    rate.name = "store.recovery_ops";
    rate.unit = "1/s";
    rate.value = median_of(rates);
    rate.params = {{"order", order}, {"objects", objects}, {"threads", cpus}};
    printer.print(rate);
    rate.name = "store.recovery_cpu";
    rate.unit = "ns";
    rate.value = median_of(cpu_ns);
    printer.print(rate);
  }
  return Done{};
}

}  // namespace

Outcome measure_restart(const RestartOptions& options, ResultPrinter& printer) {
  for (const std::uint64_t length : {4'497'408u, 256u * 1024, 16u * 1024}) {
    const Outcome measured = measure_length(length, options, printer);
    if (!measured) return measured;
  }
  return measure_rate(options, printer);
}

}  // namespace simm::bench
