#include "daemon/tools/simm-device-plugin/verdict.h"

#include <algorithm>
#include <utility>

#include "daemon/base/sanitize.h"

namespace simm::kube {
namespace {

struct Holders {
  std::set<std::pair<std::string, std::string>> pods;  // namespace, name
  std::set<std::string> ids;                           // which of those asked for they hold
  std::set<std::string> other_tenants;                 // resources in the same containers
};

void look_into(const v1::ContainerResources& container, const v1::PodResources& pod,
               const Question& question, Holders& found) {
  const std::string prefix = question.domain + "/";
  const std::string resource = prefix + question.tenant.name;
  bool holds = false;
  std::set<std::string> others;
  for (const v1::ContainerDevices& devices : container.devices()) {
    if (devices.resource_name() != resource) {
      if (devices.resource_name().starts_with(prefix) && devices.device_ids_size() > 0) {
        others.insert(devices.resource_name());
      }
      continue;
    }
    for (const std::string& id : devices.device_ids()) {
      if (!question.ids.contains(id)) continue;
      holds = true;
      found.ids.insert(id);
    }
  }
  if (!holds) return;
  found.pods.emplace(pod.namespace_(), pod.name());
  found.other_tenants.merge(others);
}

std::string shown(const std::pair<std::string, std::string>& pod) {
  return base::sanitize(pod.first, 64) + "/" + base::sanitize(pod.second);
}

}  // namespace

grpc::Status verdict_on(const Question& question, const v1::ListPodResourcesResponse& pods,
                        std::string& holder) {
  Holders found;
  for (const v1::PodResources& pod : pods.pods()) {
    for (const v1::ContainerResources& container : pod.containers()) {
      look_into(container, pod, question, found);
    }
  }
  const std::string tenant = "tenant " + question.tenant.name + ": ";
  if (found.pods.empty() || found.ids != question.ids) {
    return {grpc::StatusCode::NOT_FOUND,
            tenant +
                "the kubelet names no pod that holds what this container asks for. A container "
                "that runs before the others of its pod (initContainers) can not be a tenant "
                "alone; any other is tried again soon"};
  }
  if (found.pods.size() > 1) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            tenant + "the kubelet says that " + std::to_string(found.pods.size()) +
                " pods hold one device, such as " + shown(*found.pods.begin()) + " and " +
                shown(*found.pods.rbegin()) + "; delete those that have ended"};
  }
  const auto& pod = *found.pods.begin();
  holder = shown(pod);
  const auto& allowed = question.tenant.namespaces;
  if (std::find(allowed.begin(), allowed.end(), pod.first) == allowed.end()) {
    return {grpc::StatusCode::PERMISSION_DENIED,
            tenant + "the pod " + holder + " is refused: namespace " +
                base::sanitize(pod.first, 64) +
                " may not be this tenant. Ask for the resource of your own tenant, or let an "
                "administrator add the namespace to tenants[].namespaces of the chart"};
  }
  if (!found.other_tenants.empty()) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            tenant + "the pod " + holder + " is refused: one of its containers asks for " +
                base::sanitize(*found.other_tenants.begin()) +
                " as well. A container is one tenant: use a container for each"};
  }
  return grpc::Status::OK;
}

}  // namespace simm::kube
