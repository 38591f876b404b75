#include "daemon/engine/group_key.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace simm::engine {

namespace {

constexpr std::size_t kWordBytes = 8;
constexpr std::uint64_t kLows = 0x0101010101010101u;
constexpr std::uint64_t kHighs = 0x8080808080808080u;

bool is_hex(char c) noexcept {
  const auto lower = static_cast<unsigned char>(static_cast<unsigned char>(c) | 0x20u);
  const auto digit = static_cast<unsigned char>(c);
  return static_cast<unsigned>(digit - '0') < 10u || static_cast<unsigned>(lower - 'a') < 6u;
}

// For 7-bit bytes: the high bit of each byte that is at least `from`.
constexpr std::uint64_t at_least(std::uint64_t bytes, std::uint64_t from) noexcept {
  return (bytes + (0x80 - from) * kLows) & kHighs;
}

// The high bit of each byte that is not a hex digit. Eight bytes at a time, because every key of
// every batch passes here. The sums stay below 256 per byte, so no carry crosses into the next one.
std::uint64_t not_hex_bits(std::uint64_t word) noexcept {
  const std::uint64_t low7 = word & ~kHighs;
  const std::uint64_t lower = low7 | 0x20 * kLows;
  const std::uint64_t digit = at_least(low7, '0') & ~at_least(low7, '9' + 1);
  const std::uint64_t letter = at_least(lower, 'a') & ~at_least(lower, 'f' + 1);
  return ((~(digit | letter)) | word) & kHighs;
}

// The end of the first run of at least kGroupHexDigitsMin hex digits, 0 when there is none.
std::size_t hex_run_end(std::string_view key) noexcept {
  static_assert(kGroupHexDigitsMin > kWordBytes, "a run inside one word is never long enough");
  std::size_t run = 0;  // hex digits just before `at`
  std::size_t at = 0;
  for (; key.size() - at >= kWordBytes; at += kWordBytes) {
    std::uint64_t word;
    // SAFETY: at least kWordBytes remain, by the loop's condition.
    std::memcpy(&word, key.data() + at, kWordBytes);
    const std::uint64_t not_hex = not_hex_bits(word);
    if (not_hex == 0) {
      run += kWordBytes;
      continue;
    }
    // Little-endian: the first character is the lowest byte.
    const auto leading = static_cast<std::size_t>(std::countr_zero(not_hex)) / 8;
    if (run + leading >= kGroupHexDigitsMin) return at + leading;
    run = static_cast<std::size_t>(std::countl_zero(not_hex)) / 8;
  }
  for (; at < key.size(); ++at) {
    if (is_hex(key[at])) {
      ++run;
    } else {
      if (run >= kGroupHexDigitsMin) return at;
      run = 0;
    }
  }
  return run >= kGroupHexDigitsMin ? key.size() : 0;
}

}  // namespace

std::string_view group_of(std::string_view key) noexcept {
  static_assert(std::endian::native == std::endian::little);
  const std::size_t digest_end = hex_run_end(key);
  if (digest_end != 0) return key.substr(0, digest_end);
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

}  // namespace simm::engine
