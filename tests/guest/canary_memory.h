// Memory that shows who wrote to it: filled with a canary, or with what was stored. Thread: any.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "tests/guest/rdma_client.h"

namespace rdma_client {

inline constexpr std::byte kCanary{0xa5};
inline constexpr std::byte kStored{0x11};
inline constexpr std::size_t kPagesOfGet = 8;  // of one get
inline constexpr std::size_t kBytesOfGet = kPagesOfGet * kPageBytes;

inline void fill(std::byte* at, std::size_t bytes, std::byte with) {
  std::memset(at, std::to_integer<int>(with), bytes);
}

inline bool is_canary(const std::byte* at, std::size_t bytes) {
  return at[0] == kCanary && std::memcmp(at, at + 1, bytes - 1) == 0;
}

// Fills memory that nobody else may write any more, and watches it for a while.
inline void watch(const char* what, std::byte* at, std::size_t bytes) {
  using Clock = std::chrono::steady_clock;
  fill(at, bytes, kCanary);
  for (const auto end = Clock::now() + std::chrono::milliseconds(500); Clock::now() < end;) {
    if (!is_canary(at, bytes)) fail(what, "a byte has changed afterwards");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Of a get: some of its bytes have come, and some have not.
inline bool is_cut(const std::byte* at, std::size_t bytes) {
  const auto come = std::count(at, at + bytes, kStored);
  return come > 0 && static_cast<std::size_t>(come) < bytes;
}

}  // namespace rdma_client
