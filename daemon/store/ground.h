// Ground: a stretch of an arena that grows neighbour by neighbour until one long object fits in it.
// For an object so long that no HoleWindow has enough blocks. All of it is one block, in use and of
// no record, so nobody else comes to lie there, and it is kept for its put until that asks again.
// Plain data of the store. Thread: the data agent of the store.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/key_hash.h"
#include "daemon/store/eviction/group_book.h"
#include "daemon/store/space/table.h"

namespace simm::store {

struct Ground {
  // A put that has not asked for so long has given up: the ground is a hole again.
  static constexpr base::TimeNs kUnclaimedNs = base::kNsPerSecond;

  [[nodiscard]] bool active() const noexcept { return block != kNone; }
  [[nodiscard]] bool is_for(const base::KeyHash& hash, std::uint64_t wanted) const noexcept {
    return active() && key == hash && need.extent_bytes == wanted;
  }

  std::uint32_t block = kNone;           // kNone: there is none
  base::KeyHash key;                     // of the object that it is for,
  Need need;                             // and what that wants
  base::TimeNs asked_ns = 0;             // when its put asked last
  std::uint64_t evicted_bytes = 0;       // for its put, between its calls: it has to be told
  std::uint64_t evicted_bytes_left = 0;  // how many more there may be
  // The extent that is copied out of the way; at most one.
  std::uint32_t moving = kNone;  // its record, pinned
  std::uint32_t place = kNone;   // where it goes
  std::uint64_t copied = 0;
};

}  // namespace simm::store
