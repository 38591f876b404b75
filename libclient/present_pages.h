// PresentPages: which pages of a region exist in memory, as far as libclient saw to it. The daemon
// makes few absent pages of a client present, because its own memory cgroup pays for them. So
// libclient faults in what a call is about to use, and this process pays.
//
// A bit for each chunk is set once its pages were made present. That pages may go again (a hole is
// punched, the kernel swaps) is found by the daemon, whose answer leads to make() with `anew`.
// Owned by its RegionRecord. Thread: any, while the region is held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simm::detail {

class PresentPages {
public:
  // What is remembered together, and made present together where the region has it.
  static constexpr std::uint64_t kChunkBytes = 64 * 1024;

  // While nobody else knows the region. `all`: everything was made present already.
  void open(std::byte* address, std::uint64_t bytes, bool all);
  void close() noexcept;

  // A guess for whoever does not hold the region.
  [[nodiscard]] bool all() const noexcept { return unknown_.load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] bool known(std::uint64_t offset, std::uint64_t length) const noexcept;

  enum class Made : std::uint8_t {
    present,
    late,    // not all of it by the deadline
    failed,  // the kernel does not: no memory behind it, or it may not be read
  };
  // Makes the range, inside the region, present. `anew`: also what is known to be. Blocking, in
  // steps of a few milliseconds between which the deadline is looked at.
  Made make(std::uint64_t offset, std::uint64_t length, std::uint64_t deadline_ns,
            bool anew) noexcept;

  // Whether a copy by this process can not fault: the range is there and may be read, or written.
  [[nodiscard]] bool may_copy(std::uint64_t offset, std::uint64_t length, bool write) noexcept;

private:
  [[nodiscard]] bool is_known(std::uint64_t chunk) const noexcept {
    const std::uint64_t word = known_[chunk / 64].load(std::memory_order_relaxed);
    return (word >> chunk % 64 & 1) != 0;
  }
  void remember(std::uint64_t chunk) noexcept;

  std::byte* address_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::atomic<std::uint64_t> unknown_{0};  // chunks
  std::unique_ptr<std::atomic<std::uint64_t>[]> known_;
};

// Makes the pages of a range of this process's memory present as if it were read or written.
// False when the kernel can not. Changes no byte.
bool populate(std::byte* address, std::uint64_t bytes, bool write) noexcept;

}  // namespace simm::detail
