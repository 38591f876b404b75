#include "daemon/metrics/reader_rules.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <span>
#include <utility>

#include "daemon/base/sanitize.h"
#include "daemon/base/secret_file.h"
#include "daemon/cluster/hello/secret.h"
#include "ipc/text_list.h"

namespace simm::control {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kDigits = "0123456789";

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

// A Host header without its port, and an IPv6 address without its brackets; in lower case. Empty:
// it is none.
std::string host_of(std::string_view header) {
  const std::size_t colon = header.rfind(':');
  if (colon != header.npos && header.find(']', colon) == header.npos) {
    if (header.find_first_not_of(kDigits, colon + 1) != header.npos) return {};
    header = header.substr(0, colon);
  }
  const bool has_brackets = header.size() > 2 && header.front() == '[' && header.back() == ']';
  if (has_brackets) header = header.substr(1, header.size() - 2);
  // Without brackets there is no other colon.
  if (!has_brackets && header.find(':') != header.npos) return {};
  return lower(header);
}

std::optional<boost::asio::ip::address> address_of(const std::string& host) {
  boost::system::error_code failed;
  const auto address = boost::asio::ip::make_address(host, failed);
  if (failed) return std::nullopt;
  return address;
}

bool is_host_name(const std::string& name) {
  const std::string known = std::string(kLetters) + std::string(kDigits) + ".-_";
  return name.size() <= 253 && name.find_first_not_of(known) == std::string::npos;
}

// What an Authorization header may hold behind "Bearer" (token68 of RFC 7235).
bool is_token(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._~+/=").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

bool is_address_or_localhost(std::string_view host) {
  const std::string name = host_of(host);
  return name == "localhost" || address_of(name).has_value();
}

Expected<ReaderRules> ReaderRules::make(const base::Config& config) {
  std::vector<std::string> names;
  for (const std::string& name : ipc::text_list(config.metrics.host_names)) {
    if (!is_host_name(lower(name))) {
      return Error{Status::invalid_argument,
                   "metrics.host_names = " + base::sanitize(name, 80) +
                       ": write names of hosts, without a port, such as simm1.example.com"};
    }
    names.push_back(lower(name));
  }
  if (config.metrics.token_file.empty()) return ReaderRules({}, std::move(names));
  const auto path = base::secret_path("metrics.token_file", config.metrics.token_file);
  if (!path) return path.error();
  auto token = base::read_secret_file(*path, base::credentials_directory());
  if (!token) return Error{token.status(), "metrics.token_file: " + token.error().context};
  if (!is_token(*token)) {
    return Error{Status::invalid_argument,
                 "metrics.token_file: " + *path +
                     " holds what no header can carry: a token has letters, digits and -._~+/= "
                     "alone; make one with: simmctl secret create FILE"};
  }
  return ReaderRules(std::move(*token), std::move(names));
}

ReaderRules::ReaderRules(std::string token, std::vector<std::string> host_names)
    : token_(std::move(token)), host_names_(std::move(host_names)) {}

bool ReaderRules::is_name_of_this(const Reader& reader) const {
  const std::string host = host_of(reader.host);
  if (host.empty()) return false;
  if (host == "localhost") return true;
  if (std::find(host_names_.begin(), host_names_.end(), host) != host_names_.end()) return true;
  const auto address = address_of(host);
  return address && (address->is_loopback() || address == address_of(reader.address));
}

bool ReaderRules::has_token(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  if (lower(authorization.substr(0, kScheme.size())) != kScheme) return false;
  return cluster::same_bytes(bytes_of(authorization.substr(kScheme.size())), bytes_of(token_));
}

std::optional<ReaderRules::Refusal> ReaderRules::refuse_page(const Reader& reader) const {
  if (!reader.is_local && !asks_for_token()) {
    return Refusal{403, "Forbidden",
                   "the status page is for readers on this host; for others name a "
                   "metrics.token_file in the configuration"};
  }
  if (!is_name_of_this(reader)) {
    return Refusal{400, "Bad Request",
                   "the Host header is localhost, the address that this server listens on, or a "
                   "name of metrics.host_names"};
  }
  if (reader.origin.empty()) return std::nullopt;
  const std::string origin = lower(reader.origin);
  const std::string host = lower(reader.host);
  if (origin == "http://" + host || origin == "https://" + host) return std::nullopt;
  return Refusal{403, "Forbidden", "another site may not read the status page"};
}

std::optional<ReaderRules::Refusal> ReaderRules::refuse_status(const Reader& reader) const {
  if (auto refused = refuse_page(reader)) return refused;
  // "none": a person typed the address.
  if (!reader.site.empty() && reader.site != "same-origin" && reader.site != "none") {
    return Refusal{403, "Forbidden", "another site may not read the status page"};
  }
  if (!asks_for_token() || has_token(reader.authorization)) return std::nullopt;
  return Refusal{401, "Unauthorized",
                 reader.authorization.empty()
                     ? "give the token of metrics.token_file: Authorization: Bearer TOKEN"
                     : "this is not the token of metrics.token_file",
                 "WWW-Authenticate: Bearer realm=\"simm\"\r\n"};
}

}  // namespace simm::control
