// StockKeeper: evicts in the background, so that a put seldom has to. It sees to the stocks of
// bytes and records of a shard, and to the stock of each tenant near its quota.
// Thread: the data agent that owns the store.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/store/object_book.h"

namespace simm::store {

class StockKeeper {
public:
  // The book outlives the keeper.
  explicit StockKeeper(ObjectBook& book) noexcept;

  [[nodiscard]] const Stock& bytes() const noexcept { return byte_stock_; }
  // Evicts a bounded number; returns how many went. `free_soon_bytes`: not free now, but before
  // long.
  int do_work(std::uint64_t free_soon_bytes, base::TimeNs now_ns) noexcept;

private:
  // Whether something should go for a stock, and of what it is.
  [[nodiscard]] bool wants(std::uint64_t free_soon_bytes, Scarce& scarce) noexcept;

  ObjectBook& book_;
  const Stock byte_stock_;
  const Stock record_stock_;
  bool evicting_bytes_ = false;  // the stock was below low, and is not at high
  bool evicting_records_ = false;
  std::uint32_t crowded_ = kNone;  // account whose own stock was seen to last
};

}  // namespace simm::store
