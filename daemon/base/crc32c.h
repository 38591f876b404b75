// crc32c (Castagnoli): the checksum of records that outlive the process. By the instruction of the
// CPU where the build may use it (SSE 4.2, ARMv8 CRC), else by a table; the values are the same.
// Polynomial 0x1EDC6F41, reflected, as in RFC 3720. Thread: any; pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace simm::base {

// Goes on from the state `crc`, which is ~0 at the start and is inverted at the end.
[[nodiscard]] constexpr std::uint32_t crc32c_add_byte_by_table(std::uint32_t crc,
                                                               std::uint8_t byte) noexcept {
  constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1) * 0x82f63b78u;
      table[i] = value;
    }
    return table;
  }();
  return crc >> 8 ^ kTable[(crc ^ byte) & 0xff];
}

// The eight bytes of a word, lowest first.
[[nodiscard]] constexpr std::uint32_t crc32c_add_by_table(std::uint32_t crc,
                                                          std::uint64_t word) noexcept {
  for (int i = 0; i < 8; ++i, word >>= 8) {
    crc = crc32c_add_byte_by_table(crc, static_cast<std::uint8_t>(word));
  }
  return crc;
}

[[nodiscard]] inline std::uint32_t crc32c_add(std::uint32_t crc, std::uint64_t word) noexcept {
#if defined(__SSE4_2__)
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
#elif defined(__ARM_FEATURE_CRC32)
  return __crc32cd(crc, word);
#else
  return crc32c_add_by_table(crc, word);
#endif
}

[[nodiscard]] inline std::uint32_t crc32c_add_byte(std::uint32_t crc, std::uint8_t byte) noexcept {
#if defined(__SSE4_2__)
  return _mm_crc32_u8(crc, byte);
#elif defined(__ARM_FEATURE_CRC32)
  return __crc32cb(crc, byte);
#else
  return crc32c_add_byte_by_table(crc, byte);
#endif
}

// Of `length` bytes.
[[nodiscard]] inline std::uint32_t crc32c(const void* bytes, std::size_t length) noexcept {
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint32_t crc = ~std::uint32_t{0};
  for (; length >= sizeof(std::uint64_t); length -= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);  // SAFETY: at least eight bytes are left
    crc = crc32c_add(crc, word);
    at += sizeof word;
  }
  for (; length > 0; --length, ++at) crc = crc32c_add_byte(crc, *at);
  return ~crc;
}

}  // namespace simm::base
