#include "daemon/http/http_endpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "daemon/base/sanitize.h"

namespace simm::http {
namespace {

bool is_host(std::string_view host, bool bracketed) {
  const auto fits = [bracketed](char c) {
    const bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_word || c == '.' || c == '-' || c == '_' || (bracketed && (c == ':' || c == '%'));
  };
  return !host.empty() && host.size() <= 255 && std::all_of(host.begin(), host.end(), fits);
}

bool is_port(std::string_view text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, failed] = std::from_chars(text.data(), end, number);
  return failed == std::errc() && last == end && number >= 1 && number <= 65535;
}

}  // namespace

Expected<HttpEndpoint> HttpEndpoint::parse(std::string_view text) {
  const Error wrong{Status::invalid_argument,
                    base::sanitize(std::string(text)) +
                        " is no endpoint: write http://HOST:PORT or https://HOST:PORT"};
  HttpEndpoint result;
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  std::string_view rest;
  if (text.substr(0, kPlain.size()) == kPlain) {
    rest = text.substr(kPlain.size());
  } else if (text.substr(0, kTls.size()) == kTls) {
    rest = text.substr(kTls.size());
    result.tls = true;
  } else {
    return wrong;
  }
  if (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  std::string_view host = rest.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::string_view port = rest.substr(colon + 1);
  if (!is_host(host, bracketed) || !is_port(port)) return wrong;
  result.host = host;
  result.port = port;
  return result;
}

std::string HttpEndpoint::text() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (tls ? "https://" : "http://") + (is_v6 ? "[" + host + "]" : host) + ":" + port;
}

}  // namespace simm::http
