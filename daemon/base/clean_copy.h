// clean_copy: sanitize() (daemon/base/sanitize.h) into a fixed buffer, without allocating, so that
// data agents can do it. Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace simm::base {

// Copies what fits, escapes whole. Returns how many bytes that are.
inline std::size_t clean_copy(std::span<char> out, std::string_view text) noexcept {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::size_t at = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
    if (out.size() - at < (is_plain ? 1U : 4U)) break;
    if (is_plain) {
      out[at++] = c;
      continue;
    }
    out[at++] = '\\';
    out[at++] = 'x';
    out[at++] = kHex[byte >> 4];
    out[at++] = kHex[byte & 15];
  }
  return at;
}

}  // namespace simm::base
