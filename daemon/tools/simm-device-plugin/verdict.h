// The verdict: may the container that holds these devices be this tenant? Only what the kubelet
// says of its pods counts. What is not certain is refused. Thread: any.
#pragma once

#include <grpcpp/support/status.h>

#include <set>
#include <string>

#include "daemon/tools/simm-device-plugin/options.h"
#include "pod_resources.pb.h"

namespace simm::kube {

struct Question {
  const Tenant& tenant;
  const std::string& domain;         // of all resources of this plugin
  const std::set<std::string>& ids;  // devices of the tenant's resource, at least one
};

// OK, and `holder` is the pod, "namespace/name"; else why not, with the remedy, for who reads the
// events of the pod.
grpc::Status verdict_on(const Question& question, const v1::ListPodResourcesResponse& pods,
                        std::string& holder);

}  // namespace simm::kube
