// text_list: a list of texts that is one text, with commas between them and blanks that do not
// matter: "10.0.0.7:30001, 10.0.0.8:30001". Empty elements are left out. Thread: any.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace simm::ipc {

inline std::vector<std::string> text_list(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    if (!one.empty()) all.emplace_back(one);
  }
  return all;
}

}  // namespace simm::ipc
