#include "daemon/base/event_ring.h"

#include <cstring>

namespace simm::base {

EventRing::EventRing() : slots_(std::make_unique<std::array<Slot, kEventsMax>>()) {}

// The words are written with release and read with acquire: a reader of a new word also sees that
// the slot is being written. The thread sanitizer does not know fences.
bool EventRing::put(std::uint64_t sequence, const PackedEvent& event) noexcept {
  Slot& slot = (*slots_)[sequence % kEventsMax];
  std::uint64_t held = slot.state.load(std::memory_order_relaxed);
  const bool is_free = held % 2 == 0 && held < 2 * sequence;
  if (!is_free ||
      !slot.state.compare_exchange_strong(held, 2 * sequence + 1, std::memory_order_acq_rel)) {
    std::uint64_t skipped = slot.skipped.load(std::memory_order_relaxed);
    while (skipped < sequence &&
           !slot.skipped.compare_exchange_weak(skipped, sequence, std::memory_order_release,
                                               std::memory_order_relaxed)) {
    }
    return false;
  }
  std::array<std::uint64_t, kWords> words;
  std::memcpy(words.data(), &event, sizeof event);
  for (std::size_t i = 0; i < kWords; ++i) {
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.state.store(2 * sequence, std::memory_order_release);
  return true;
}

EventRing::Found EventRing::take(std::uint64_t sequence, PackedEvent& event) const noexcept {
  const Slot& slot = (*slots_)[sequence % kEventsMax];
  const std::uint64_t state = slot.state.load(std::memory_order_acquire);
  if (state > 2 * sequence + 1) return Found::gone;
  if (state != 2 * sequence) {
    // A later one that was left out has drawn its number a whole round later: whoever drew this one
    // and has not come yet comes too late.
    const bool is_skipped = slot.skipped.load(std::memory_order_acquire) >= sequence;
    return is_skipped ? Found::gone : Found::not_yet;
  }
  std::array<std::uint64_t, kWords> words;
  for (std::size_t i = 0; i < kWords; ++i) {
    words[i] = slot.words[i].load(std::memory_order_acquire);
  }
  if (slot.state.load(std::memory_order_relaxed) != state) return Found::gone;
  std::memcpy(&event, words.data(), sizeof event);
  return Found::event;
}

}  // namespace simm::base
