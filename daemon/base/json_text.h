// json_text: a JSON value as text, on one line. Strings in it may be of a client, a peer or the
// system. What is not UTF-8 becomes a replacement character; the library alone would throw. Nothing
// else in the daemon turns JSON into text for others. Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace simm::base {

template <typename Json>
[[nodiscard]] std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace simm::base
