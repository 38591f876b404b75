// RoomMaker: an extent and a record for a put. It takes what is free. Else the Compactor joins
// holes, the GroundMaker clears room for a very long object, or what is worth least is evicted.
// A call does a bounded amount of each. Between puts do_work() goes on with what was begun, and
// keeps a stock of room.
// Thread: the data agent that owns the store.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/compactor.h"
#include "daemon/store/ground_maker.h"
#include "daemon/store/object_book.h"
#include "daemon/store/stock_keeper.h"
#include "daemon/store/write_request.h"

namespace simm::store {

class RoomMaker {
public:
  // The book outlives the maker.
  explicit RoomMaker(ObjectBook& book) noexcept
      : book_(book),
        stocks_(book),
        compactor_(book, stocks_.bytes().high),
        ground_(book, compactor_) {}

  struct Room {
    std::uint32_t block = kNone;      // the extent; kNone: there is no room yet
    std::uint64_t evicted_bytes = 0;  // for this put until now
    bool refused = false;             // the put has cost too many others: there will be none
  };
  // A record is free as well when there is an extent.
  [[nodiscard]] Room make_room(const WriteRequest& request, std::uint32_t account,
                               base::TimeNs now_ns) noexcept;
  // A record was given its extent.
  void note_place(std::uint32_t record) noexcept { compactor_.note_place(record); }

  int do_work(base::TimeNs now_ns) noexcept;
  // How many bytes are kept free in the background.
  [[nodiscard]] const Stock& stock_bytes() const noexcept { return stocks_.bytes(); }

  // Extents in use, but of no record.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    return compactor_.held_bytes() + ground_.held_bytes();
  }

private:
  // The extent; kNone: not in this call. `bytes_before`: what had been evicted in all when this put
  // began to make room.
  [[nodiscard]] std::uint32_t find_room(const WriteRequest& request, std::uint32_t account,
                                        base::TimeNs now_ns, std::uint64_t bytes_before) noexcept;
  // Something is being made that the put does well to wait for.
  [[nodiscard]] bool is_served(const WriteRequest& request) const noexcept;
  // The next victim, or the object that is replaced; returns how many went.
  std::uint32_t evict_next(const WriteRequest& request, const Need& need, bool for_quota,
                           base::TimeNs now_ns) noexcept;
  [[nodiscard]] bool drop_replaced(const WriteRequest& request, base::TimeNs now_ns) noexcept;

  ObjectBook& book_;
  StockKeeper stocks_;
  Compactor compactor_;
  GroundMaker ground_;
};

}  // namespace simm::store
