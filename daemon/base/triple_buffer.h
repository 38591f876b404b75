// TripleBuffer: the newest value of something, from one thread to another. Neither waits. The
// writer fills one of three places and swaps it for the one in the middle. The reader swaps its own
// for the middle one when that is newer. So the reader always has a whole value, and what it does
// not come for is skipped. Nothing is allocated after the constructor.
//
// Thread: back() and publish() by one writer, latest() by one reader.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "daemon/base/mailbox.h"

namespace simm::base {

template <typename T>
class TripleBuffer {
public:
  // All places begin as copies of `initial`, which is the value until the first publish().
  explicit TripleBuffer(const T& initial = T{}) : places_{{{initial}, {initial}, {initial}}} {}
  TripleBuffer(const TripleBuffer&) = delete;
  TripleBuffer& operator=(const TripleBuffer&) = delete;

  // Where the next value is to be written; what is there is some older one.
  [[nodiscard]] T& back() noexcept { return places_[back_].value; }
  // The value in back() is the newest from now on.
  void publish() noexcept {
    // Release: the value is whole. Acquire: the reader is done with the place that comes back.
    back_ = middle_.exchange(back_ | kNew, std::memory_order_acq_rel) & kPlace;
  }

  // The newest value; good until the next call.
  [[nodiscard]] const T& latest() noexcept {
    if ((middle_.load(std::memory_order_relaxed) & kNew) != 0) {
      front_ = middle_.exchange(front_, std::memory_order_acq_rel) & kPlace;
    }
    return places_[front_].value;
  }

private:
  static constexpr std::uint32_t kPlace = 3;
  static constexpr std::uint32_t kNew = 4;  // the reader has not had it
  struct alignas(kSeparate) Place {
    T value;
  };

  std::array<Place, 3> places_;
  alignas(kSeparate) std::uint32_t back_ = 0;  // the writer's
  alignas(kSeparate) std::atomic<std::uint32_t> middle_{1};
  alignas(kSeparate) std::uint32_t front_ = 2;  // the reader's
};

}  // namespace simm::base
