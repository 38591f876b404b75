// PrivatePages: which addresses of the process lie in pages that are private copies, because a
// daemon that did not answer could still have written into the shared ones (take_back.h). No daemon
// sees such pages any more, so libclient copies what lies there.
//
// One for the process: two daemons may have the same memory. Thread: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace simm::detail {

class PrivatePages {
public:
  static PrivatePages& instance() noexcept;
  // Most processes never have such a page, and ask for nothing more.
  [[nodiscard]] static bool none() noexcept { return !any_.load(std::memory_order_seq_cst); }

  // Grows with each change; 0: no page was ever taken back. An answer holds while it stays.
  [[nodiscard]] std::uint64_t changes() const noexcept {
    return changes_.load(std::memory_order_seq_cst);
  }
  // From `first` up to `end`. std::bad_alloc: nothing has changed.
  void add(std::uint64_t first, std::uint64_t end);
  // The memory there was found to be shared, when changes() had that value or later.
  void forget(std::uint64_t first, std::uint64_t end, std::uint64_t changes) noexcept;
  // The same of memory that nobody else knows: a new mapping, or one that ends.
  void forget(const std::byte* memory, std::uint64_t bytes) noexcept {
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    forget(first, first + bytes, changes());
  }
  [[nodiscard]] bool touches(std::uint64_t first, std::uint64_t end) const noexcept;
  [[nodiscard]] std::uint64_t bytes(std::uint64_t first, std::uint64_t end) const noexcept;

  // Around fork(): nobody is at it.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork() noexcept { mutex_.unlock(); }  // in the parent and in the child

private:
  using Parts = std::map<std::uint64_t, std::uint64_t>;
  // The first part that ends behind the address.
  [[nodiscard]] Parts::const_iterator first_behind(std::uint64_t address) const noexcept;

  static constinit inline std::atomic<bool> any_{false};

  std::atomic<std::uint64_t> changes_{0};
  mutable std::mutex mutex_;  // of what follows
  Parts ends_;                // by first address; disjoint
};

}  // namespace simm::detail
