// StoreTraffic: puts of ever new objects into a store that is full, and uses of old ones in between
// so that what leaves are not neighbours in memory; an old one that has left is put again. Measures
// what the store makes of its memory. Payloads are never touched, the arena may be aliased. Thread:
// any one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/base/random.h"
#include "daemon/store/store.h"

namespace simm::bench {

// Of all moments in which the store was full: after each put, from the first eviction on.
struct SpaceUse {
  std::uint64_t moments = 0;
  double payload_bytes_sum = 0;
  std::uint64_t payload_bytes_least = ~std::uint64_t{0};
  std::uint64_t put_bytes = 0;
  std::uint64_t moved_bytes = 0;
  std::uint64_t evictions = 0;      // objects
  std::uint64_t evictions_max = 0;  // for one put
  std::uint64_t waits = 0;          // turns in which a put found no room

  [[nodiscard]] double payload_bytes_mean() const noexcept {
    return moments == 0 ? 0 : payload_bytes_sum / static_cast<double>(moments);
  }
};

class StoreTraffic {
public:
  using Length = std::function<std::uint64_t(base::SeededRandom&)>;

  StoreTraffic(store::Store& store, std::uint64_t seed) : store_(store), random_(seed) {}

  // Puts objects until `bytes` of them have been put.
  void put(std::uint64_t bytes, const Length& length);
  // From now on only objects that are put from now on are used: another model was loaded.
  void change_over() noexcept { change_ = number_; }
  // Since the last call.
  [[nodiscard]] SpaceUse take_use() noexcept { return std::exchange(use_, {}); }
  [[nodiscard]] std::uint64_t objects_put() const noexcept { return number_; }

private:
  // `number`: the object's; its key refers to it.
  void put_one(const std::uint64_t& number, std::uint64_t length);
  // Bytes that were put for that.
  std::uint64_t use_an_old_one(const Length& length);

  store::Store& store_;
  base::SeededRandom random_;
  SpaceUse use_;
  std::uint64_t number_ = 0;  // objects put so far; the newest is called so
  std::uint64_t change_ = 0;  // what number_ was then
  base::TimeNs now_ns_ = 1000 * base::kNsPerSecond;
};

}  // namespace simm::bench
