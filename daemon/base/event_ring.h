// EventRing: the newest kEventsMax events of a daemon, numbered from 1, in memory that is made at
// start. Writers and readers wait for nobody. A writer draws a number, then writes its event into
// the slot of that number. Owned by an EventLog (daemon/base/event_log.h).
// Thread: any; no lock, no allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simm::base {

inline constexpr std::uint32_t kEventsMax = 4096;  // that a daemon remembers

// An event as it lies in the ring.
struct PackedEvent {
  std::uint64_t wall_ns;
  std::uint32_t left_out;
  std::uint8_t kind;
  std::uint8_t subject_bytes;
  std::uint8_t text_bytes;
  std::uint8_t reserved;
  std::array<char, 64> subject;
  std::array<char, 168> text;
};
static_assert(sizeof(PackedEvent) == 248);

class EventRing {
public:
  EventRing();

  // The number of the writer's event. It is the newest one from here on.
  [[nodiscard]] std::uint64_t draw() noexcept {
    return newest_.fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  // False: a writer who is a whole round late or early has the slot, and this event is left out.
  [[nodiscard]] bool put(std::uint64_t sequence, const PackedEvent& event) noexcept;

  enum class Found : std::uint8_t {
    event,
    gone,     // overwritten, or left out by put()
    not_yet,  // its writer has drawn the number only
  };
  [[nodiscard]] Found take(std::uint64_t sequence, PackedEvent& event) const noexcept;
  [[nodiscard]] std::uint64_t newest() const noexcept {
    return newest_.load(std::memory_order_acquire);
  }

private:
  static constexpr std::size_t kWords = sizeof(PackedEvent) / sizeof(std::uint64_t);
  // `state` is twice the number of the event that is there, plus one while it is being written;
  // `skipped` is the largest number of an event that found the slot taken.
  struct Slot {
    std::atomic<std::uint64_t> state{0};
    std::atomic<std::uint64_t> skipped{0};
    std::array<std::atomic<std::uint64_t>, kWords> words{};
  };

  std::atomic<std::uint64_t> newest_{0};
  const std::unique_ptr<std::array<Slot, kEventsMax>> slots_;
};

}  // namespace simm::base
