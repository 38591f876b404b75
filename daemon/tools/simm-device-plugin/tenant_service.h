// TenantService: answers the kubelet for the resource of one tenant. Each device is the right of
// one container to be the tenant. Before a container starts, its pod's namespace is looked up:
// without that no container gets in.
//
// Owner: its Plugin. Thread: gRPC's, several at a time; set_healthy() and stop() are the main
// one's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "daemon/base/log.h"
#include "daemon/tools/simm-device-plugin/options.h"
#include "daemon/tools/simm-device-plugin/pod_lookup.h"
#include "device_plugin.grpc.pb.h"

namespace simm::kube {

class TenantService final : public v1beta1::DevicePlugin::Service {
public:
  TenantService(const Options& options, const Tenant& tenant, PodLookup& pods, base::Log& log);

  // Whether the node daemon's socket for the tenant is there. Tells the kubelet what is new.
  void set_healthy(bool healthy);
  // Ends what waits; nothing is answered any more.
  void stop();

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* context, const v1beta1::Empty* request,
                                      v1beta1::DevicePluginOptions* answer) override;
  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty* request,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override;
  grpc::Status Allocate(grpc::ServerContext* context, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* answer) override;
  grpc::Status PreStartContainer(grpc::ServerContext* context,
                                 const v1beta1::PreStartContainerRequest* request,
                                 v1beta1::PreStartContainerResponse* answer) override;

private:
  template <typename Ids>
  grpc::Status check_ids(const Ids& ids) const;
  [[nodiscard]] grpc::Status check_directory() const;
  grpc::Status decide(const v1beta1::PreStartContainerRequest& request, std::string& holder);

  const Options& options_;
  const Tenant& tenant_;
  PodLookup& pods_;
  base::Log& log_;
  std::set<std::string> devices_;

  std::mutex mutex_;  // of the three below
  std::condition_variable changed_;
  bool healthy_ = false;
  bool stopped_ = false;
  std::uint64_t version_ = 1;  // of the list of devices
};

}  // namespace simm::kube
