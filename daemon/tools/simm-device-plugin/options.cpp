#include "daemon/tools/simm-device-plugin/options.h"

#include <sys/un.h>

#include <algorithm>
#include <set>

namespace simm::kube {
namespace {

constexpr std::size_t kResourceBytesMax = 63;  // the part behind the "/"
constexpr std::size_t kNamespaceBytesMax = 63;
constexpr std::size_t kDomainBytesMax = 253;
constexpr std::size_t kSocketBytesMax = sizeof(sockaddr_un::sun_path) - 1;

Error wrong(std::string text) {
  return {Status::invalid_argument, std::move(text)};
}

bool is_lower(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_alphanumeric(char c) noexcept {
  return is_lower(c) || (c >= 'A' && c <= 'Z');
}

// Letters and digits at both ends, in between also those of `inner`.
bool is_name(std::string_view text, std::size_t bytes_max, bool capitals, std::string_view inner) {
  const auto fits = [&](char c) { return capitals ? is_alphanumeric(c) : is_lower(c); };
  return !text.empty() && text.size() <= bytes_max && fits(text.front()) && fits(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return fits(c) || inner.find(c) != inner.npos; });
}

bool is_domain(std::string_view text) {
  if (!is_name(text, kDomainBytesMax, false, "-.")) return false;
  return text.find("..") == text.npos && text.find(".-") == text.npos &&
         text.find("-.") == text.npos;
}

bool ends_with(std::string_view text, std::string_view end) noexcept {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

Expected<Tenant> parse_tenant(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos) {
    return wrong("--tenant " + std::string(text) + ": write NAME=NAMESPACE,NAMESPACE");
  }
  Tenant tenant{std::string(text.substr(0, equals)), {}};
  if (!is_name(tenant.name, kResourceBytesMax, true, "-_.")) {
    return wrong("--tenant " + std::string(text) +
                 ": the tenant's name is no name of a resource of Kubernetes: take at most 63 "
                 "letters, digits, '-', '_' and '.', and begin and end with a letter or digit");
  }
  std::string_view rest = text.substr(equals + 1);
  for (bool more = !rest.empty(); more;) {
    const std::size_t comma = rest.find(',');
    more = comma != rest.npos;
    const std::string_view name = rest.substr(0, comma);
    if (!is_name(name, kNamespaceBytesMax, false, "-")) {
      return wrong("--tenant " + std::string(text) + ": '" + std::string(name) +
                   "' is no name of a namespace");
    }
    tenant.namespaces.emplace_back(name);
    if (more) rest = rest.substr(comma + 1);
  }
  return tenant;
}

Outcome check_options(const Options& options) {
  if (!is_domain(options.domain) || options.domain == "kubernetes.io" ||
      ends_with(options.domain, ".kubernetes.io")) {
    return wrong("--domain " + options.domain +
                 ": write a DNS name in lower case, and not one of kubernetes.io");
  }
  for (const std::string* path : {&options.host_path, &options.directory, &options.kubelet}) {
    if (path->empty() || path->front() != '/') return wrong(*path + ": write an absolute path");
  }
  if (options.tenants.empty()) return wrong("there is no tenant: name one by --tenant");
  std::set<std::string_view> names;
  for (const Tenant& tenant : options.tenants) {
    if (!names.insert(tenant.name).second)
      return wrong("--tenant " + tenant.name + ": comes twice");
    const std::string socket = options.plugins() + "/" + options.endpoint_of(tenant);
    if (socket.size() > kSocketBytesMax) {
      return wrong(socket + ": is longer than the " + std::to_string(kSocketBytesMax) +
                   " bytes of a socket's name; choose a shorter --domain or tenant");
    }
  }
  return Done{};
}

}  // namespace simm::kube
