// TenantTraffic: what the sessions of one tenant on one data agent have moved, and what they had to
// wait for. Owned by the tenant's account. Thread: its data agent writes, the control thread reads;
// each number is whole, not all of one moment.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simm::session {

// What a submission may have to wait for before it is taken on.
enum class HeldFor : std::uint8_t { operations, bytes, bandwidth };
inline constexpr std::size_t kHeldForCount = 3;
inline constexpr std::array<std::string_view, kHeldForCount> kHeldForNames = {"operations", "bytes",
                                                                              "bandwidth"};

struct alignas(64) TenantTraffic {
  class Number {
  public:
    void add(std::uint64_t by) noexcept {
      value_.store(value_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t value() const noexcept {
      return value_.load(std::memory_order_relaxed);
    }

  private:
    std::atomic<std::uint64_t> value_{0};
  };

  Number got_bytes;  // by gets, from this daemon's pool and from other daemons
  Number put_bytes;
  std::array<Number, kHeldForCount> held;  // submissions, by HeldFor
};

// Of all data agents.
struct TenantTrafficSum {
  std::uint64_t got_bytes = 0;
  std::uint64_t put_bytes = 0;
  std::array<std::uint64_t, kHeldForCount> held{};
};

}  // namespace simm::session
