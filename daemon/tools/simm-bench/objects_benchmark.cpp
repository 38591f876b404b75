#include "daemon/tools/simm-bench/objects_benchmark.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/store.h"
#include "daemon/tools/simm-bench/aliased_memory.h"
#include "daemon/tools/simm-bench/block_key.h"
#include "daemon/tools/simm-bench/memory_figures.h"

namespace simm::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kObjectBytes = 4096;
constexpr std::size_t kBatch = 128;
constexpr base::TimeNs kPerOperationNs = 1000;  // of the store's clock
// More than a store keeps for each; asked for before anything is begun.
constexpr std::uint64_t kMemoryPerObject = 512;

class ObjectsRun {
public:
  ObjectsRun(store::Store& store, std::uint32_t objects)
      : store_(store), objects_(objects), keys_(kBatch) {}

  // Each returns how many operations did what they should, of as many.
  std::uint64_t insert() { return put(1, objects_); }
  std::uint64_t probe() {
    return look_up(0, [&](const store::ObjectKey& key) {
      return store_.exists(key, 0, now_ns_) == kObjectBytes;
    });
  }
  std::uint64_t read() {
    return look_up(0, [&](const store::ObjectKey& key) {
      store::ReadPin pin;
      if (store_.begin_read(key, 0, now_ns_, pin) != Status::ok) return false;
      store_.end_read(pin);
      return true;
    });
  }
  std::uint64_t miss() {
    return look_up(
        objects_, [&](const store::ObjectKey& key) { return store_.exists(key, 0, now_ns_) == 0; });
  }
  // The store is full, and each put costs an old object.
  std::uint64_t evict() { return put(std::uint64_t{objects_} + 1, objects_); }

  // Until leases have ended and nothing is left to do.
  void rest() {
    now_ns_ += 100 * base::kNsPerSecond;
    while (store_.do_work(now_ns_) != 0) now_ns_ += kPerOperationNs;
  }
  // Puts new objects until the first one is evicted.
  void fill() {
    std::uint64_t number = std::uint64_t{3} * objects_;
    while (store_.stats().evicted == 0) put(number += kBatch, kBatch);
  }
  // The time that operations took, without that of making their keys.
  [[nodiscard]] double take_seconds() { return std::exchange(seconds_, 0); }

private:
  template <typename Work>
  void timed(Work&& work) {
    const auto start = Clock::now();
    work();
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::uint64_t put(std::uint64_t first, std::uint64_t count) {
    std::uint64_t done = 0;
    for (std::uint64_t at = 0; at < count; at += kBatch) {
      const std::size_t some = std::min<std::uint64_t>(kBatch, count - at);
      for (std::size_t i = 0; i < some; ++i) keys_[i].set(first + at + i);
      timed([&] {
        ahead(some, [&](std::size_t i) {
          if (put_one(keys_[i].key())) ++done;
        });
      });
    }
    return done;
  }
  bool put_one(const store::ObjectKey& key) {
    now_ns_ += kPerOperationNs;
    store::WriteResult begun = store_.begin_write({key, kObjectBytes, {}, 0}, now_ns_);
    while (begun.start == store::WriteStart::wait) {
      now_ns_ += kPerOperationNs;
      store_.do_work(now_ns_);
      begun = store_.begin_write({key, kObjectBytes, {}, 0}, now_ns_);
    }
    if (begun.start != store::WriteStart::reserved) return false;
    store_.publish(begun.reservation, 1, 1, now_ns_);
    store_.do_work(now_ns_);
    return true;
  }

  // Keys 1 to `objects_`, in an order without sense (1,000,003 is prime), and `beyond` further on.
  template <typename Right>
  std::uint64_t look_up(std::uint64_t beyond, Right&& right) {
    std::uint64_t done = 0;
    for (std::uint64_t at = 0; at < objects_; at += kBatch) {
      const std::size_t some = std::min<std::uint64_t>(kBatch, objects_ - at);
      for (std::size_t i = 0; i < some; ++i) {
        keys_[i].set(beyond + 1 + (at + i) * 1'000'003 % objects_);
      }
      timed([&] {
        ahead(some, [&](std::size_t i) {
          now_ns_ += kPerOperationNs;
          if (right(keys_[i].key())) ++done;
        });
        store_.do_work(now_ns_);
      });
    }
    return done;
  }

  // Visits a batch as a server does, which asks for the lines that a look-up needs ahead of it.
  template <typename Visit>
  void ahead(std::size_t count, Visit&& visit) {
    constexpr std::size_t kStep = 6;
    for (std::size_t i = 0; i < count + 4 * kStep; ++i) {
      if (i < count) store_.prefetch_index(keys_[i].key().hash);
      const std::size_t record = i - kStep;  // wraps around before its first turn: not below count
      if (record < count) {
        candidates_[record] = store_.prefetch_record(keys_[record].key().hash);
      }
      const std::size_t group = i - 2 * kStep;
      if (group < count) store_.prefetch_group(candidates_[group]);
      const std::size_t order = i - 3 * kStep;
      if (order < count) store_.prefetch_order(candidates_[order]);
      const std::size_t visited = i - 4 * kStep;
      if (visited < count) visit(visited);
    }
  }

  store::Store& store_;
  std::uint32_t objects_;
  std::vector<BlockKey> keys_;
  std::array<std::uint32_t, kBatch> candidates_{};
  base::TimeNs now_ns_ = 1000 * base::kNsPerSecond;
  double seconds_ = 0;
};

Outcome print_speed(ObjectsRun& run, std::uint32_t objects, const char* name,
                    std::uint64_t (ObjectsRun::*part)(), ResultPrinter& printer) {
  const std::uint64_t right = (run.*part)();
  if (right != objects) {
    return Error{Status::corrupt, std::string("store.objects: ") + name + ": " +
                                      std::to_string(objects - right) + " of " +
                                      std::to_string(objects) + " went wrong"};
  }
  Result speed;
  speed.name = "store.objects_ops";
  speed.unit = "1/s";
  speed.value = static_cast<double>(objects) / std::max(run.take_seconds(), 1e-9);
  speed.params = {{"operation", name}, {"objects", objects}};
  printer.print(speed);
  return Done{};
}

}  // namespace

Outcome measure_objects(std::uint32_t objects, ResultPrinter& printer) {
  const std::uint64_t needed = objects * kMemoryPerObject;
  if (available_bytes() < needed) {
    return Error{Status::no_space, std::to_string(objects) + " objects need about " +
                                       std::to_string(needed >> 20) + " MiB, " +
                                       std::to_string(available_bytes() >> 20) +
                                       " MiB are free: use a smaller --objects"};
  }
  const std::uint64_t before = private_bytes();
  // Room for all of them beside what the background keeps free.
  const store::StoreConfig config;
  auto arena = AliasedMemory::map(objects * kObjectBytes + config.free_bytes_max);
  if (!arena) return std::move(arena).error();
  auto store = store::Store::create(config, arena->bytes());
  if (!store) return std::move(store).error();
  ObjectsRun run(**store, objects);
  const Outcome inserted = print_speed(run, objects, "insert", &ObjectsRun::insert, printer);
  if (!inserted) return inserted;
  if ((*store)->objects() != objects) return Error{Status::corrupt, "store.objects: some are gone"};
  Result memory;
  memory.name = "store.objects_bytes";
  memory.unit = "B";
  memory.value = static_cast<double>(private_bytes() - before) / objects;
  memory.params = {{"objects", objects}, {"key_bytes", BlockKey::kBytes}};
  printer.print(memory);
  for (const auto& [name, part] :
       {std::pair{"exists", &ObjectsRun::probe}, std::pair{"read", &ObjectsRun::read},
        std::pair{"miss", &ObjectsRun::miss}}) {
    const Outcome measured = print_speed(run, objects, name, part, printer);
    if (!measured) return measured;
  }
  run.rest();
  run.fill();
  (void)run.take_seconds();
  const Outcome evicted =
      print_speed(run, objects, "evict_and_insert", &ObjectsRun::evict, printer);
  if (!evicted) return evicted;
  if (const char* wrong = (*store)->audit()) return Error{Status::corrupt, wrong};
  return Done{};
}

}  // namespace simm::bench
