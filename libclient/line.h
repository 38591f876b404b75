// Whether a name that a caller gives is a line of text. The daemon ends a session whose client
// sends a control character, because its log would show a forged line. Thread: any.
#pragma once

#include <algorithm>
#include <string_view>

namespace simm::detail {

[[nodiscard]] inline bool is_line(std::string_view text) noexcept {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace simm::detail
