#include "daemon/engine/shared_key.h"

#include <algorithm>

#include "daemon/engine/group_key.h"

namespace simm::engine {

bool is_shared_key(std::string_view key) noexcept {
  constexpr std::string_view kTail = "__k";
  if (key.size() < kGroupHexDigitsMin + kTail.size()) return false;
  if (key.substr(key.size() - kTail.size()) != kTail) return false;
  const std::string_view digest =
      key.substr(key.size() - kTail.size() - kGroupHexDigitsMin, kGroupHexDigitsMin);
  return std::all_of(digest.begin(), digest.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

}  // namespace simm::engine
