// Options: what the command line says. All names are checked here, once: they become names of
// resources, of sockets and of directories. Owner: main(). Thread: any, it never changes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "simm/expected.h"

namespace simm::kube {

inline constexpr unsigned kEnginesMax = 1024;

struct Tenant {
  std::string name;
  std::vector<std::string> namespaces;  // whose pods may be this tenant
};

struct Options {
  std::vector<Tenant> tenants;
  std::string domain = "simm.io";
  std::string host_path = "/run/simm";       // the tenants' directories, as the node names them
  std::string directory = "/run/simm";       // the same, as this process sees them
  std::string kubelet = "/var/lib/kubelet";  // what the kubelet calls its root directory
  unsigned engines = 64;                     // containers of one tenant on this node, at most

  [[nodiscard]] std::string resource_of(const Tenant& tenant) const {
    return domain + "/" + tenant.name;
  }
  [[nodiscard]] std::string endpoint_of(const Tenant& tenant) const {
    return domain + "_" + tenant.name + ".sock";
  }
  [[nodiscard]] std::string plugins() const { return kubelet + "/device-plugins"; }
  [[nodiscard]] std::string kubelet_socket() const { return plugins() + "/kubelet.sock"; }
  [[nodiscard]] std::string pods_socket() const { return kubelet + "/pod-resources/kubelet.sock"; }
};

// Of "NAME=NAMESPACE,NAMESPACE"; nothing behind the "=": no pod may be this tenant.
Expected<Tenant> parse_tenant(std::string_view text);

// What is wrong with the whole: two tenants of one name, a name of a socket that is too long.
Outcome check_options(const Options& options);

}  // namespace simm::kube
