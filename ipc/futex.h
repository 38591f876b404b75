// Sleeping on a 32-bit word that processes share (a non-private futex), and the clock of its
// deadlines. Linux only.
// Thread: any. Errors: none that a caller could act on; a wait may always end early.
#pragma once

#include <cstdint>

namespace simm::ipc {

// CLOCK_MONOTONIC in nanoseconds, the time base of every deadline in ipc/.
[[nodiscard]] std::uint64_t monotonic_now_ns() noexcept;

inline constexpr std::uint64_t kNoDeadlineNs = ~std::uint64_t{0};

// Sleeps while *word == value, until a wake, a signal or the deadline (absolute, monotonic).
// Returns false when the deadline has passed; true otherwise, which says nothing about the word.
bool futex_wait(std::uint32_t* word, std::uint32_t value, std::uint64_t deadline_ns) noexcept;

// Wakes one sleeper. One: a word has one sleeper by protocol. A client that parks thousands of
// threads on it must not make the daemon wake them all.
void futex_wake_one(std::uint32_t* word) noexcept;

}  // namespace simm::ipc
