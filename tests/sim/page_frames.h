// PageFrames: the pages of a simulated client. A free page holds a canary: whoever writes into it
// after its operation has completed, or beside the slice that was meant, is found out. A page whose
// operation has completed gets its canary at once, so that a put that still reads it stores bytes
// of nobody. Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/report.h"

namespace simm::sim {

class PageFrames {
public:
  static constexpr std::uint32_t kGuardBytes = 64;

  // `owner` makes the canaries of different clients different.
  PageFrames(std::uint32_t frames, std::uint32_t frame_bytes, std::uint64_t owner);

  [[nodiscard]] std::span<std::byte> memory() { return memory_; }
  [[nodiscard]] bool has_free(std::size_t count) const { return free_.size() >= count; }

  // A free page, after a look at its canary. Its usable bytes begin at offset().
  std::uint32_t take(Report& report);
  [[nodiscard]] std::uint64_t offset(std::uint32_t frame) const;
  [[nodiscard]] std::span<std::byte> bytes(std::uint32_t frame, std::uint64_t length);

  // The operation on its first `length` bytes is over: looks at what lies around them and puts a
  // new canary over everything.
  void give_back(std::uint32_t frame, std::uint64_t length, Report& report);
  // The same without looking.
  void abandon(std::uint32_t frame);

  void check_free(Report& report) const;

private:
  [[nodiscard]] std::span<std::byte> whole(std::uint32_t frame);
  [[nodiscard]] std::span<const std::byte> whole(std::uint32_t frame) const;
  void check(std::uint32_t frame, std::uint64_t from, std::uint64_t to, const char* when,
             Report& report) const;

  std::uint32_t stride_;
  std::uint64_t owner_;
  std::uint64_t canaries_ = 0;
  std::vector<std::byte> memory_;
  std::vector<std::uint64_t> canary_;  // of each frame
  std::vector<std::uint32_t> free_;
};

}  // namespace simm::sim
