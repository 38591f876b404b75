// KeyWalker: tells a listener of key events which objects are there. A walk is ordered through the
// book's tap, and carried out some records in a turn, in the order of their numbers. An object that
// is stored behind it in that order is told by its own event, and so is one that leaves: together
// they leave nothing out. Nobody has ordered one: a load and a branch in each turn.
//
// Owned by its store, beside the book. Thread: the data agent of the store.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/object_book.h"

namespace simm::store {

class KeyWalker {
public:
  // A walk ends after so many records that it looked at, or objects that it told.
  static constexpr std::uint32_t kWalkRecordsMax = 8192;
  static constexpr std::uint32_t kWalkKeysMax = 1024;

  // The book outlives it.
  explicit KeyWalker(ObjectBook& book) noexcept : book_(book) {}

  // How many records it looked at.
  int do_work(base::TimeNs now_ns) noexcept {
    const base::KeyWalk* const walk = book_.key_events.walk();
    return walk == nullptr ? 0 : go_on(*walk, now_ns);
  }

private:
  int go_on(const base::KeyWalk& walk, base::TimeNs now_ns) noexcept;

  ObjectBook& book_;
  std::uint32_t at_ = 0;  // 0: no walk is under way
  std::uint32_t looked_ = 0;
  std::uint32_t told_ = 0;
};

}  // namespace simm::store
