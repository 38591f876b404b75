// Text of others in our logs: everything but plain printable ASCII becomes \xNN, quotes and
// backslashes too. So nobody can forge a line, a field or a terminal sequence. Keys are not even
// printed so: nothing logs them.
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

}  // namespace simm::base
