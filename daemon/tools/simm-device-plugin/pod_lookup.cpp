#include "daemon/tools/simm-device-plugin/pod_lookup.h"

#include <chrono>

#include "daemon/base/sanitize.h"
#include "daemon/tools/simm-device-plugin/channel.h"
#include "pod_resources.grpc.pb.h"

namespace simm::kube {
namespace {

// The kubelet waits for 30 s, and then tries again: a turn and an answer have to fit well.
constexpr std::chrono::seconds kWaitForTurn{5};
constexpr std::chrono::seconds kWaitForAnswer{5};

}  // namespace

grpc::Status PodLookup::ask(v1::ListPodResourcesResponse& answer) {
  const std::unique_lock<std::timed_mutex> turn(asking_, kWaitForTurn);
  if (!turn) {
    return {grpc::StatusCode::UNAVAILABLE,
            "the kubelet's PodResources API is slow, and other containers wait for it; the kubelet "
            "tries this one again"};
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kWaitForAnswer);
  const auto stub = v1::PodResourcesLister::NewStub(connect_to(socket_));
  const grpc::Status asked = stub->List(&context, v1::ListPodResourcesRequest(), &answer);
  if (asked.ok()) return asked;
  return {grpc::StatusCode::UNAVAILABLE,
          "the kubelet's PodResources API at " + socket_ +
              " does not say which pod this is: " + base::sanitize(asked.error_message())};
}

}  // namespace simm::kube
