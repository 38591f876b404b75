// ExpiryWheel: finds elements of a Table whose time has come. One level of buckets (Varghese and
// Lauck, "Hashed and hierarchical timing wheels", scheme 6): elements further away than one
// rotation are met once a rotation and stay. Elements of one bucket come up in the order they were
// added. Coarse on purpose: whoever needs the exact time looks at the element. Thread: the agent
// that owns the wheel.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/space/table.h"

namespace simm::store {

template <typename T, WheelLink T::*kWheelLink>
class ExpiryWheel {
public:
  static constexpr std::uint32_t kBuckets = 1024;
  static constexpr base::TimeNs kTickNs = 128 * base::kNsPerMs;

  [[nodiscard]] static bool scheduled(const T& element) noexcept {
    return (element.*kWheelLink).link.next != kNone;
  }

  void schedule(Table<T>& table, std::uint32_t number, base::TimeNs at_ns) noexcept {
    std::uint64_t tick = at_ns / kTickNs + 1;  // not before its time
    if (tick <= tick_) tick = tick_ + 1;
    WheelLink& link = table[number].*kWheelLink;
    link.bucket = static_cast<std::uint16_t>(tick % kBuckets);
    push_back(table, link.bucket, number);
  }

  // Nothing happens when it is not scheduled.
  void cancel(Table<T>& table, std::uint32_t number) noexcept {
    if (scheduled(table[number])) remove(table, number);
  }

  // Meets at most `budget` elements whose bucket is due. Takes each off the wheel and calls
  // `on_due(number)`, which may schedule it again. Returns how many it met.
  template <typename OnDue>
  int advance(Table<T>& table, base::TimeNs now_ns, int budget, OnDue&& on_due) noexcept {
    const std::uint64_t now_tick = now_ns / kTickNs;
    // After a long silence one rotation meets everything.
    if (now_tick > tick_ + kBuckets) {
      tick_ = now_tick - kBuckets;
      stop_ = kNone;
    }
    int met = 0;
    while (tick_ < now_tick) {
      // What was added to this bucket by on_due belongs to a later rotation: stop at the old back.
      const std::uint32_t bucket = static_cast<std::uint32_t>((tick_ + 1) % kBuckets);
      if (stop_ == kNone) stop_ = back(table, bucket);
      while (stop_ != kNone) {
        if (met == budget) return met;
        const std::uint32_t number = fronts_[bucket];
        remove(table, number);
        on_due(number);
        ++met;
      }
      ++tick_;
    }
    return met;
  }

private:
  Link& link(Table<T>& table, std::uint32_t number) noexcept {
    return (table[number].*kWheelLink).link;
  }

  std::uint32_t back(Table<T>& table, std::uint32_t bucket) noexcept {
    return fronts_[bucket] == kNone ? kNone : link(table, fronts_[bucket]).previous;
  }

  void push_back(Table<T>& table, std::uint32_t bucket, std::uint32_t number) noexcept {
    Link& added = link(table, number);
    const std::uint32_t front = fronts_[bucket];
    if (front == kNone) {
      added = {number, number};
      fronts_[bucket] = number;
      return;
    }
    const std::uint32_t last = link(table, front).previous;
    added = {last, front};
    link(table, last).next = number;
    link(table, front).previous = number;
  }

  void remove(Table<T>& table, std::uint32_t number) noexcept {
    Link& removed = link(table, number);
    std::uint32_t& front = fronts_[(table[number].*kWheelLink).bucket];
    if (number == stop_) stop_ = front == number ? kNone : removed.previous;
    if (removed.next == number) {
      front = kNone;
    } else {
      link(table, removed.previous).next = removed.next;
      link(table, removed.next).previous = removed.previous;
      if (front == number) front = removed.next;
    }
    removed = {};
  }

  std::array<std::uint32_t, kBuckets> fronts_{};
  std::uint64_t tick_ = 0;
  std::uint32_t stop_ = kNone;  // in the bucket under way: the last element of this rotation
};

}  // namespace simm::store
