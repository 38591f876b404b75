// Text of others in our logs: everything but plain printable ASCII becomes \xNN, quotes and
// backslashes included, so nobody can forge a line, a field or a terminal sequence. Keys are not
// even printed so: a log names them by hash.
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/base/hash.h"

namespace simm::base {

inline std::string sanitize(std::string_view text, std::size_t bytes_max = 200) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string clean;
  for (const char c : text) {
    if (clean.size() + 4 > bytes_max) return clean += "...";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      clean += c;
    } else {
      clean += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return clean;
}

// How a key appears in logs: its hash in hex.
inline std::string key_label(const KeyHash& hash) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string label = "key#";
  for (int shift = 60; shift >= 0; shift -= 4) label += kHex[hash.high >> shift & 15];
  return label;
}

}  // namespace simm::base
