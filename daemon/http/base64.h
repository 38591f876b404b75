// Base64 (RFC 4648, section 4, with padding): how JSON carries bytes. Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace simm::http {

std::string to_base64(std::string_view bytes);
// nullopt: no base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace simm::http
