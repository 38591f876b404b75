#include "daemon/engine/shared_key.h"

#include <algorithm>
#include <span>

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

bool is_shared_get(const Operation& operation) noexcept {
  const transport::RequestHeader& header = operation.header;
  if (header.opcode != ipc::Opcode::get || header.ranged || operation.is_fetch) return false;
  const auto pages = std::span(operation.pages).first(operation.page_count);
  return std::all_of(pages.begin(), pages.end(), [&header](const transport::PageRequest& page) {
    return page.object_offset == 0 &&
           (header.shared_read || is_shared_key({page.key, page.key_bytes}));
  });
}

bool may_be_hot_get(const Operation& operation) noexcept {
  const transport::RequestHeader& header = operation.header;
  if (!header.immutable || header.opcode != ipc::Opcode::get) return false;
  if (header.ranged || operation.is_fetch) return false;
  const auto pages = std::span(operation.pages).first(operation.page_count);
  return std::all_of(pages.begin(), pages.end(),
                     [](const transport::PageRequest& page) { return page.object_offset == 0; });
}

}  // namespace simm::engine
