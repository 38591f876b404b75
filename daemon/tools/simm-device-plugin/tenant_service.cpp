#include "daemon/tools/simm-device-plugin/tenant_service.h"

#include <chrono>

#include "daemon/base/sanitize.h"
#include "daemon/tools/simm-device-plugin/file_identity.h"
#include "daemon/tools/simm-device-plugin/verdict.h"

namespace simm::kube {
namespace {

constexpr const char* kMountedAt = "/run/simm";  // where clients look for the socket
constexpr std::chrono::milliseconds kLook{200};  // for a kubelet that has hung up

}  // namespace

TenantService::TenantService(const Options& options, const Tenant& tenant, PodLookup& pods,
                             base::Log& log)
    : options_(options), tenant_(tenant), pods_(pods), log_(log) {
  for (unsigned number = 0; number < options.engines; ++number) {
    devices_.insert("engine-" + std::to_string(number));
  }
}

void TenantService::set_healthy(bool healthy) {
  const std::lock_guard lock(mutex_);
  if (healthy == healthy_) return;
  healthy_ = healthy;
  ++version_;
  changed_.notify_all();
}

void TenantService::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

grpc::Status TenantService::GetDevicePluginOptions(grpc::ServerContext* /*context*/,
                                                   const v1beta1::Empty* /*request*/,
                                                   v1beta1::DevicePluginOptions* answer) {
  answer->set_pre_start_required(true);
  return grpc::Status::OK;
}

grpc::Status TenantService::ListAndWatch(
    grpc::ServerContext* context, const v1beta1::Empty* /*request*/,
    grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) {
  std::uint64_t told = 0;
  while (!context->IsCancelled()) {
    v1beta1::ListAndWatchResponse list;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLook, [&] { return stopped_ || version_ != told; });
      if (stopped_) break;
      if (version_ == told) continue;
      told = version_;
      for (const std::string& id : devices_) {
        v1beta1::Device* device = list.add_devices();
        device->set_id(id);
        device->set_health(healthy_ ? "Healthy" : "Unhealthy");
      }
    }
    if (!writer->Write(list)) break;
  }
  return grpc::Status::OK;
}

template <typename Ids>
grpc::Status TenantService::check_ids(const Ids& ids) const {
  if (ids.empty()) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "tenant " + tenant_.name + ": the kubelet asks for no device"};
  }
  for (const std::string& id : ids) {
    if (devices_.contains(id)) continue;
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "tenant " + tenant_.name + ": there is no device " + base::sanitize(id, 64) +
                ", only " + "engine-0 to engine-" + std::to_string(options_.engines - 1) +
                "; delete the pod, so that another device is given"};
  }
  return grpc::Status::OK;
}

// A runtime would make a directory that is not there, as root.
grpc::Status TenantService::check_directory() const {
  if (is_directory(options_.directory + "/" + tenant_.name)) return grpc::Status::OK;
  return {grpc::StatusCode::UNAVAILABLE,
          "tenant " + tenant_.name + ": the node has no directory " + options_.host_path + "/" +
              tenant_.name + " yet: the node daemon makes it; look at its pod on this node"};
}

grpc::Status TenantService::Allocate(grpc::ServerContext* /*context*/,
                                     const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* answer) {
  if (const grpc::Status there = check_directory(); !there.ok()) return there;
  for (const v1beta1::ContainerAllocateRequest& container : request->containers()) {
    if (const grpc::Status known = check_ids(container.device_ids()); !known.ok()) return known;
    v1beta1::Mount* mount = answer->add_containers()->add_mounts();
    mount->set_container_path(kMountedAt);
    mount->set_host_path(options_.host_path + "/" + tenant_.name);
    mount->set_read_only(true);
  }
  return grpc::Status::OK;
}

grpc::Status TenantService::decide(const v1beta1::PreStartContainerRequest& request,
                                   std::string& holder) {
  if (const grpc::Status known = check_ids(request.device_ids()); !known.ok()) return known;
  if (const grpc::Status there = check_directory(); !there.ok()) return there;
  v1::ListPodResourcesResponse pods;
  if (const grpc::Status asked = pods_.ask(pods); !asked.ok()) {
    return {asked.error_code(), "tenant " + tenant_.name + ": " + asked.error_message()};
  }
  const std::set<std::string> ids(request.device_ids().begin(), request.device_ids().end());
  return verdict_on({tenant_, options_.domain, ids}, pods, holder);
}

grpc::Status TenantService::PreStartContainer(grpc::ServerContext* /*context*/,
                                              const v1beta1::PreStartContainerRequest* request,
                                              v1beta1::PreStartContainerResponse* /*answer*/) {
  std::string holder;
  const grpc::Status decided = decide(*request, holder);
  if (decided.ok()) {
    log_.info("plugin", "a container gets in", {{"tenant", tenant_.name}, {"pod", holder}});
  } else {
    log_.warning("plugin", "a container is refused",
                 {{"tenant", tenant_.name}, {"why", decided.error_message()}});
  }
  return decided;
}

}  // namespace simm::kube
