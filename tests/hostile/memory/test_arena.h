// A pool's arena with canaries in it, for the workers of foreign regions.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "daemon/memory/helper/foreign_arena.h"
#include "daemon/store/space/arena.h"

namespace simm::memory::testing {

struct TestArena {
  static constexpr std::uint64_t kBytes = 32 << 20;
  static constexpr auto kCanary = std::byte{0xc5};
  store::Arena arena;

  TestArena() : arena(make()) { fill(0, kBytes, kCanary); }
  static store::Arena make() {
    store::ArenaConfig config;
    config.bytes = kBytes;
    auto made = store::Arena::create(config);
    REQUIRE(made);
    return std::move(made).value();
  }
  [[nodiscard]] ForeignArena foreign() const { return {arena.fd(), arena.bytes()}; }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return &arena.bytes()[offset]; }
  void fill(std::uint64_t offset, std::uint64_t length, std::byte value) const {
    std::fill_n(at(offset), length, value);
  }
  [[nodiscard]] bool is_all(std::uint64_t offset, std::uint64_t length, std::byte value) const {
    // All are the first one: fast under sanitizers, too.
    return length == 0 ||
           (*at(offset) == value && std::memcmp(at(offset), at(offset) + 1, length - 1) == 0);
  }
  [[nodiscard]] bool is_canary_but(std::uint64_t offset, std::uint64_t length) const {
    return is_all(0, offset, kCanary) && is_all(offset + length, kBytes - offset - length, kCanary);
  }
};

}  // namespace simm::memory::testing
