// GroundMaker: room for one object as long as thousands of others, for which no HoleWindow has
// enough blocks. Evicting whoever is worth least until holes happen to meet would cost most of the
// store: victims lie anywhere. So a stretch of the arena is cleared, from the largest hole on. Its
// neighbours go if they could be the next victim or are worth little more; else they move out of
// the way. About as many bytes are evicted as the object has.
//
// All of the ground is one block, in use and of no record, so nobody else comes to lie there. It is
// kept for its put until that asks again. There is one ground at a time. A call evicts and copies a
// bounded amount; other requests are served between two of them. An object that is read or written
// at the moment is in the way until that has ended; the ground grows on its other side meanwhile.
// Thread: the data agent that owns the store.
#pragma once

#include <cstdint>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/key_hash.h"
#include "daemon/store/compactor.h"
#include "daemon/store/eviction/group_book.h"
#include "daemon/store/object_book.h"

namespace simm::store {

class GroundMaker {
public:
  // A put that has not asked for so long has given up: the ground is a hole again.
  static constexpr base::TimeNs kUnclaimedNs = base::kNsPerSecond;

  // Both outlive the maker.
  GroundMaker(ObjectBook& book, const Compactor& compactor) noexcept
      : book_(book), compactor_(compactor) {}

  [[nodiscard]] bool active() const noexcept { return ground_.block != kNone; }
  [[nodiscard]] bool is_for(const base::KeyHash& hash, std::uint64_t wanted) const noexcept {
    return active() && ground_.key == hash && ground_.need.extent_bytes == wanted;
  }
  [[nodiscard]] bool is_ready() const noexcept {
    return active() && book_.extents.block(ground_.block).bytes >= ground_.need.extent_bytes;
  }
  // In use, but of no record.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    return (active() ? book_.extents.block(ground_.block).bytes : 0) +
           (ground_.place != kNone ? book_.extents.block(ground_.place).bytes : 0);
  }

  // Whether an object of this length is to have ground, given what its put has evicted until now.
  [[nodiscard]] bool is_needed(std::uint64_t extent_bytes,
                               std::uint64_t evicted_bytes) const noexcept;
  // Begins or goes on. False: it is not possible, or not until something else goes.
  [[nodiscard]] bool ask(const base::KeyHash& hash, const Need& need, std::uint64_t evicted_bytes,
                         base::TimeNs now_ns) noexcept;
  // An extent for this put, when its ground is ready; kNone: it is not.
  [[nodiscard]] std::uint32_t take(const base::KeyHash& hash, std::uint64_t wanted) noexcept;
  // What went for the ground between two calls of its put, which has to be told.
  [[nodiscard]] std::uint64_t take_evicted_bytes() noexcept {
    return std::exchange(ground_.evicted_bytes, 0);
  }
  // There is a ground: it is a hole again.
  void end() noexcept;
  // There is a ground: goes on with it, or ends it unclaimed. Returns how much was done.
  int do_work(base::TimeNs now_ns) noexcept;

private:
  struct Ground {
    std::uint32_t block = kNone;           // kNone: there is none
    base::KeyHash key;                     // of the object that it is for,
    Need need;                             // and what that wants
    base::TimeNs asked_ns = 0;             // when its put asked last
    std::uint64_t evicted_bytes = 0;       // for its put, between its calls
    std::uint64_t evicted_bytes_left = 0;  // how many more there may be
    // The extent that is copied out of the way; at most one.
    std::uint32_t moving = kNone;  // its record, pinned
    std::uint32_t place = kNone;   // where it goes
    std::uint64_t copied = 0;
  };
  struct Neighbour {
    enum class What : std::uint8_t { none, hole, move, evict };
    std::uint32_t block = kNone;
    What what = What::none;
    std::uint64_t cost = ~std::uint64_t{0};  // in bytes; copying one is twice evicting one
  };

  void begin(const base::KeyHash& hash, const Need& need) noexcept;
  // A bounded step; false: nothing changed.
  [[nodiscard]] bool grow(base::TimeNs now_ns) noexcept;
  // What a neighbour of the ground would cost. none: it is in the way.
  [[nodiscard]] Neighbour neighbour(std::uint32_t block, const GroupBook::Victim& victim,
                                    std::uint32_t times, base::TimeNs now_ns) const noexcept;
  // A record in the way (unless kNone), or the next victim; returns how many went.
  std::uint32_t evict(const GroupBook::Victim& victim, std::uint32_t record,
                      base::TimeNs now_ns) noexcept;
  // Gives the object a place elsewhere, or evicts whoever has to go for that; returns how many
  // went.
  std::uint32_t move(std::uint32_t record, const GroupBook::Victim& victim,
                     base::TimeNs now_ns) noexcept;
  // Goes on with the copy; false: it is not done yet.
  [[nodiscard]] bool copy(std::uint64_t& copies_left) noexcept;
  void end_move(bool done) noexcept;

  ObjectBook& book_;
  const Compactor& compactor_;
  Ground ground_;
};

}  // namespace simm::store
