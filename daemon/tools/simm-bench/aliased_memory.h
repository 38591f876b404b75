// AliasedMemory: a long stretch of address space over a short piece of memory, mapped again and
// again: for a store whose payloads nobody looks at, so that an arena of any length can be measured
// on any machine. Bytes written at one place show up at others. Thread: any one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simm/expected.h"

namespace simm::bench {

class AliasedMemory {
public:
  static constexpr std::size_t kPieceBytes = std::size_t{64} << 20;

  // `bytes` is rounded up to whole pieces.
  static Expected<AliasedMemory> map(std::uint64_t bytes);
  AliasedMemory(AliasedMemory&& other) noexcept;
  AliasedMemory& operator=(AliasedMemory&&) = delete;
  ~AliasedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

private:
  AliasedMemory(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}

  std::byte* data_;
  std::size_t size_;
};

}  // namespace simm::bench
