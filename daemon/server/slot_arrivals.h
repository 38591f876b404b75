// SlotArrivals: which slots of a shard may still get objects of the owner before, and which keys of
// them may not, because they were written or removed here since. So what is removed never comes
// back, and what is moved never replaces what is newer. A slot that was lost and comes back begins
// anew: what comes with it is newer than all that was written here before.
//
// A slot is open from the map that gives it to this shard on. It closes when the move window ends,
// when it is lost, or when there is no room to remember one more key. Then its objects stay misses.
// Memory is bounded, and nothing is forgotten while its slot is open.
//
// What an earlier process of this daemon removed is not known here. That one served nothing under
// maps that it never had. So a shard that comes back with its objects opens those slots of its
// first map whose tenures began behind the last map of the earlier process.
//
// A map may say that this daemon was away (SlotOwnership::back_since). Then all its slots are open
// once more, for second copies of what was put meanwhile. Removes that were sent under that map, or
// a later one, are all remembered; who offers copies refuses the earlier ones. Keys that are
// written are not remembered there: what is kept twice has one value.
// Owned by the Server. Thread: its data agent.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/base/key_hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/base/slot_ownership.h"

namespace simm::server {

class SlotArrivals {
public:
  // `keys_max`: that are remembered, of all slots together; a power of two.
  SlotArrivals(std::uint32_t keys_max, base::TimeNs window_ns);

  // Before the first map: an earlier process has served slots of this shard, and this was its last
  // map.
  void had_earlier_life(base::Epoch last) noexcept { served_until_ = last; }
  // The next map; `before` is the one in use until now (epoch 0: there was none).
  void use(const base::SlotOwnership& before, const base::SlotOwnership& now,
           base::TimeNs now_ns) noexcept;
  // Ends the window when it is over.
  void look_at_time(base::TimeNs now_ns) noexcept {
    if (open_slots_ > 0 && now_ns >= ends_ns_) close_all();
  }

  // This key is written by somebody: before anything of that happens. False: there was no room to
  // remember it, and the slot is closed now.
  bool note_write(base::Slot slot, base::KeyHash key) noexcept {
    return !open_[slot] || takes_copies_only_[slot] || remember(slot, name_of(slot, key));
  }
  // It is removed; likewise. `is_kept_twice`: it has a second copy.
  bool note_remove(base::Slot slot, base::KeyHash key, bool is_kept_twice) noexcept;
  // Whether an object may come into the slot that was moved under the tenure `since`, or is a
  // second copy for the daemon that is back since then.
  [[nodiscard]] bool may_arrive(base::Slot slot, base::KeyHash key, base::Epoch since,
                                bool is_kept_twice) const noexcept;
  // Open, and moved under that tenure.
  [[nodiscard]] bool is_open(base::Slot slot, base::Epoch since) const noexcept {
    return open_[slot] && since_[slot] == since;
  }
  // Open, and nobody has written or removed the key.
  [[nodiscard]] bool may_still_come(base::Slot slot, base::KeyHash key) const noexcept {
    return open_[slot] && !knows(name_of(slot, key));
  }
  // A key in the tenure that its slot is open for: in the next one it has another name. Never 0.
  [[nodiscard]] std::uint64_t name_of(base::Slot slot, base::KeyHash key) const noexcept {
    return name_of(key, since_[slot]);
  }

  [[nodiscard]] std::uint32_t open_slots() const noexcept { return open_slots_; }

private:
  [[nodiscard]] static std::uint64_t name_of(base::KeyHash key, base::Epoch since) noexcept {
    constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;  // spreads epochs
    const std::uint64_t name = key.low ^ key.high ^ since * kOdd;
    return name != 0 ? name : 1;
  }
  [[nodiscard]] std::size_t place_of(std::uint64_t name) const noexcept;
  [[nodiscard]] bool knows(std::uint64_t name) const noexcept;
  bool remember(base::Slot slot, std::uint64_t name) noexcept;
  void open(base::Slot slot, base::Epoch since, bool for_copies_only) noexcept;
  void close(base::Slot slot) noexcept;
  void close_all() noexcept;

  const std::uint32_t keys_max_;
  const base::TimeNs window_ns_;
  base::Epoch served_until_ = 0;  // 0: by nobody
  base::Epoch back_since_ = 0;    // under the map of now
  base::SlotSet open_;
  base::SlotSet takes_copies_only_;  // of the open ones: their tenures began before they opened
  std::uint32_t open_slots_ = 0;
  // Of the open ones: from which map on all that matters is remembered.
  std::array<base::Epoch, base::kSlotCount> since_{};
  base::TimeNs ends_ns_ = 0;
  // Names of keys, open addressing, half full at most; 0: free. Two keys of one name only make a
  // miss.
  std::unique_ptr<base::LazyArray<std::uint64_t>> keys_;
  std::uint32_t keys_known_ = 0;
};

}  // namespace simm::server
