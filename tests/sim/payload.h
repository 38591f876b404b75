// Payload: what the bytes of an object are: a function of its key, of the put that wrote it, and of
// the place of each byte. So every byte that is read tells whether it belongs where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace simm::sim {

struct Payload {
  std::uint64_t seed = 0;

  static Payload of(std::uint64_t key, std::uint64_t version) noexcept;

  // `at`: the place of the first byte in the object.
  void fill(std::span<std::byte> out, std::uint64_t at = 0) const noexcept;
  [[nodiscard]] bool matches(std::span<const std::byte> bytes, std::uint64_t at = 0) const noexcept;

private:
  [[nodiscard]] std::uint64_t word_at(std::uint64_t word) const noexcept;
};

}  // namespace simm::sim
