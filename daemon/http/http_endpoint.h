// HttpEndpoint: where a server of HTTP is. A plain value. Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "simm/expected.h"

namespace simm::http {

struct HttpEndpoint {
  bool tls = false;
  std::string host;  // a name or a numeric address, IPv6 without brackets
  std::string port;  // decimal

  // "http://host:port" or "https://[fd00::7]:port". invalid_argument says what is wrong.
  static Expected<HttpEndpoint> parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  bool operator==(const HttpEndpoint&) const = default;
};

}  // namespace simm::http
