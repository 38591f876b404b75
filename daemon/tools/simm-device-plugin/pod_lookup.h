// PodLookup: asks the kubelet which pod holds which device. One question at a time, with a
// deadline, by a connection of its own: a kubelet that was away is found at once. An answer has a
// largest size. Owner: main(). Thread: any of gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include <mutex>
#include <string>

#include "pod_resources.pb.h"

namespace simm::kube {

class PodLookup {
public:
  explicit PodLookup(std::string socket) : socket_(std::move(socket)) {}

  // OK and the answer; else UNAVAILABLE with what is wrong.
  grpc::Status ask(v1::ListPodResourcesResponse& answer);

private:
  const std::string socket_;
  std::timed_mutex asking_;
};

}  // namespace simm::kube
