#include "tests/sim/payload.h"

#include <algorithm>
#include <cstring>

#include "daemon/base/random.h"

namespace simm::sim {

Payload Payload::of(std::uint64_t key, std::uint64_t version) noexcept {
  std::uint64_t state = key * 0x9e3779b97f4a7c15u ^ version;
  return {base::splitmix64(state)};
}

std::uint64_t Payload::word_at(std::uint64_t word) const noexcept {
  return (seed + word * 0xd1342543de82ef95u) * 0x9e3779b97f4a7c15u ^ seed >> 32;
}

// Word by word: sanitizer builds run this over every byte of every object.
void Payload::fill(std::span<std::byte> out, std::uint64_t at) const noexcept {
  while (!out.empty()) {
    const std::size_t inside = at % sizeof(std::uint64_t);
    const std::size_t n = std::min(out.size(), sizeof(std::uint64_t) - inside);
    const std::uint64_t word = word_at(at / sizeof(std::uint64_t)) >> (8 * inside);
    std::memcpy(out.data(), &word, n);
    out = out.subspan(n);
    at += n;
  }
}

bool Payload::matches(std::span<const std::byte> bytes, std::uint64_t at) const noexcept {
  while (!bytes.empty()) {
    const std::size_t inside = at % sizeof(std::uint64_t);
    const std::size_t n = std::min(bytes.size(), sizeof(std::uint64_t) - inside);
    const std::uint64_t word = word_at(at / sizeof(std::uint64_t)) >> (8 * inside);
    if (std::memcmp(bytes.data(), &word, n) != 0) return false;
    bytes = bytes.subspan(n);
    at += n;
  }
  return true;
}

}  // namespace simm::sim
