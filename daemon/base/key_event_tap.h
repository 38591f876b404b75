// KeyEventTap: where a data agent tells what becomes of objects, while somebody listens. Nobody
// listens: one load and one branch for each event, and no memory. What does not fit into the ring
// is lost and takes a number all the same: the listener sees the gap, and the agent waits for
// nobody. The listener may also order a walk over the objects that are there (KeyWalk).
//
// Owned by the store's book. Thread: the methods say. The ring is made when somebody listens for
// the first time, and goes with the tap.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/base/key_event.h"
#include "daemon/base/mailbox.h"

namespace simm::base {

class KeyEventTap {
public:
  static constexpr std::size_t kKeyEventsAhead = 16'384;  // that a listener may be behind

  // ---- agent
  [[nodiscard]] bool on() const noexcept {
    return listened_.load(std::memory_order_acquire) != nullptr;
  }
  // Of a key, for the listener's sessions.
  [[nodiscard]] ipc::KeyToken token_of(std::string_view key) const noexcept {
    return ipc::key_token(salt_.load(std::memory_order_relaxed), key);
  }
  // The number is the tap's.
  void tell(KeyEvent event) noexcept {
    Ring* const ring = listened_.load(std::memory_order_acquire);
    if (ring == nullptr) [[likely]] {
      return;
    }
    event.sequence = ring->told.load(std::memory_order_relaxed) + 1;
    (void)ring->events.try_push(event);  // full: the number alone says that it was there
    ring->told.store(event.sequence, std::memory_order_release);
  }
  // The same, but where there is no room it is not told, and no number is missing.
  [[nodiscard]] bool tell_if_room(KeyEvent event) noexcept {
    Ring* const ring = listened_.load(std::memory_order_acquire);
    if (ring == nullptr) return false;
    event.sequence = ring->told.load(std::memory_order_relaxed) + 1;
    if (!ring->events.try_push(event)) return false;
    ring->told.store(event.sequence, std::memory_order_release);
    return true;
  }
  // A walk that was ordered, and that end_walk() has not ended; null: none.
  [[nodiscard]] const KeyWalk* walk() const noexcept {
    return is_walk_ordered_.load(std::memory_order_acquire) ? &walk_ : nullptr;
  }
  // False: there is no room to say so; try again. `next`: of KeyWalk.
  [[nodiscard]] bool end_walk(std::uint32_t next) noexcept {
    KeyEvent end;
    end.is_walk_end = true;
    end.walk = walk_.number;
    end.bytes = next;
    if (!tell_if_room(end) && on()) return false;  // nobody listens: it is over
    is_walk_ordered_.store(false, std::memory_order_release);
    return true;
  }
  // Something happened of which nothing true can be told.
  void lose() noexcept {
    Ring* const ring = listened_.load(std::memory_order_acquire);
    if (ring == nullptr) return;
    ring->told.store(ring->told.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // ---- control
  // From now on: what is left of an earlier listener is not told. Throws bad_alloc.
  void open(std::uint64_t salt = 0) {
    salt_.store(salt, std::memory_order_relaxed);
    if (ring_ == nullptr) ring_ = std::make_unique<Ring>();
    drain([](const KeyEvent&) {}, [](std::uint64_t) {});
    listened_.store(ring_.get(), std::memory_order_release);
  }
  // The agent may tell one more, which the next open() throws away or tells first.
  void close() noexcept { listened_.store(nullptr, std::memory_order_release); }

  // After open(). False: another one is not over. Whoever ordered it wakes the agent.
  [[nodiscard]] bool order_walk(const KeyWalk& walk) noexcept {
    if (is_walk_ordered_.load(std::memory_order_acquire)) return false;
    walk_ = walk;
    is_walk_ordered_.store(true, std::memory_order_release);
    return true;
  }

  // All that is there, in order: on_event(event), and on_gap(count) where so many are missing.
  template <typename OnEvent, typename OnGap>
  void drain(const OnEvent& on_event, const OnGap& on_gap) {
    if (ring_ == nullptr) return;
    // Before the events: all of them with numbers up to this one are there, or are lost.
    const std::uint64_t told = ring_->told.load(std::memory_order_acquire);
    KeyEvent event;
    for (std::size_t taken = 0; taken < kKeyEventsAhead; ++taken) {
      if (!ring_->events.try_pop(event)) {
        if (told > seen_) on_gap(told - seen_);
        if (told > seen_) seen_ = told;
        return;
      }
      if (event.sequence > seen_ + 1) on_gap(event.sequence - seen_ - 1);
      seen_ = event.sequence;
      on_event(event);
    }
  }

private:
  struct Ring {
    SpscMailbox<KeyEvent> events{kKeyEventsAhead};
    alignas(kSeparate) std::atomic<std::uint64_t> told{0};  // the last number
  };

  std::atomic<Ring*> listened_{nullptr};
  std::atomic<std::uint64_t> salt_{0};
  std::atomic<bool> is_walk_ordered_{false};
  KeyWalk walk_;  // the agent's while is_walk_ordered_, else control's
  std::unique_ptr<Ring> ring_;
  std::uint64_t seen_ = 0;  // the last number that drain() has told of
};

}  // namespace simm::base
