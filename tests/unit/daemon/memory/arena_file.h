// An arena as the workers of foreign regions see it, without a store in it.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "daemon/memory/helper/foreign_arena.h"
#include "ipc/mapping.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace simm::memory::testing {

inline constexpr auto kArenaCanary = std::byte{0xc5};

// `bytes` bytes of a memory file, all canaries at first.
inline ipc::Mapping map_canaries(int fd, std::uint64_t bytes) {
  auto mapping = ipc::Mapping::map(fd, 0, bytes);
  REQUIRE(mapping);
  std::fill_n(mapping->data(), bytes, kArenaCanary);
  return std::move(mapping).value();
}

struct ArenaFile {
  ipc::UniqueFd writer;
  ipc::Mapping mapping;
  ipc::UniqueFd reader;

  explicit ArenaFile(std::uint64_t bytes)
      : writer(plain_memfd(bytes)),
        mapping(map_canaries(writer.get(), bytes)),
        reader(::open(("/proc/self/fd/" + std::to_string(writer.get())).c_str(),
                      O_RDONLY | O_CLOEXEC)) {
    REQUIRE(reader.valid());
  }
  [[nodiscard]] ForeignArena foreign() const {
    return {reader.get(), {mapping.data(), mapping.bytes()}};
  }
};

}  // namespace simm::memory::testing
