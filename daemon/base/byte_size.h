// Sizes as people write them: 4096, "64KiB", "4 GiB", "1.5GB", or, where a share of the machine
// makes sense, "10%". Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace simm::base {

// Decimal (kB, MB, GB, TB) and binary (KiB, MiB, GiB, TiB) units, any case; nothing: bytes. Empty
// when it is no size or does not fit in 63 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

// "4.0 GiB": for people.
std::string format_bytes(std::uint64_t bytes);

// Either bytes or a share of something (of the host's memory, mostly).
struct ByteShare {
  std::uint64_t bytes = 0;
  std::uint32_t percent = 0;  // when not 0, `bytes` is not used

  [[nodiscard]] std::uint64_t of(std::uint64_t total) const noexcept {
    return percent != 0 ? total / 100 * percent : bytes;
  }
};
std::optional<ByteShare> parse_byte_share(std::string_view text);

}  // namespace simm::base
