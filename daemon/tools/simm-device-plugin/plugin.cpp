#include "daemon/tools/simm-device-plugin/plugin.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "daemon/base/sanitize.h"
#include "daemon/tools/simm-device-plugin/channel.h"

namespace simm::kube {
namespace {

constexpr const char* kVersion = "v1beta1";
constexpr std::chrono::seconds kRegistration{10};
// A kubelet that was cut off may leave streams behind, each of which has a thread until it is seen.
constexpr int kThreadsMax = 16;
constexpr int kRequestBytesMax = 1 << 20;

}  // namespace

Plugin::Plugin(const Options& options, const Tenant& tenant, PodLookup& pods, base::Log& log)
    : options_(options),
      tenant_(tenant),
      pods_(pods),
      log_(log),
      resource_(options.resource_of(tenant)),
      socket_(options.plugins() + "/" + options.endpoint_of(tenant)) {}

Plugin::~Plugin() {
  close();
}

void Plugin::turn() {
  if (server_ && socket_at(socket_) != own_) {
    log_.warning("plugin", "the socket is gone: a kubelet has started, or another plugin",
                 {{"resource", resource_}});
    close();
  }
  if (!server_) open();
  if (!server_) return;
  look_at_tenant();
  const auto kubelet = socket_at(options_.kubelet_socket());
  if (!kubelet) return complain("there is no kubelet at " + options_.kubelet_socket());
  if (registered_with_ != kubelet) register_with(*kubelet);
}

void Plugin::open() {
  ::unlink(socket_.c_str());
  service_ = std::make_unique<TenantService>(options_, tenant_, pods_, log_);
  grpc::ResourceQuota quota(resource_);
  quota.SetMaxThreads(kThreadsMax);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  // One resource is seldom asked: two threads wait for all of its calls.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  builder.AddListeningPort("unix:" + socket_, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  own_ = socket_at(socket_);
  if (!server_ || !own_) {
    close();
    complain("nothing can listen at " + socket_ + ": is the directory there, and ours to write?");
  }
}

void Plugin::close() {
  if (service_) service_->stop();
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  service_.reset();
  own_.reset();
  registered_with_.reset();
}

void Plugin::look_at_tenant() {
  const std::string directory = options_.directory + "/" + tenant_.name;
  service_->set_healthy(is_directory(directory) && socket_at(directory + "/simm.sock"));
}

void Plugin::register_with(const FileIdentity& kubelet) {
  v1beta1::RegisterRequest request;
  request.set_version(kVersion);
  request.set_endpoint(options_.endpoint_of(tenant_));
  request.set_resource_name(resource_);
  request.mutable_options()->set_pre_start_required(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRegistration);
  const auto stub = v1beta1::Registration::NewStub(connect_to(options_.kubelet_socket()));
  v1beta1::Empty answer;
  const grpc::Status done = stub->Register(&context, request, &answer);
  if (!done.ok()) {
    return complain("the kubelet takes no registration: " + base::sanitize(done.error_message()));
  }
  registered_with_ = kubelet;
  complaint_.clear();
  log_.info("plugin", "the kubelet knows the resource", {{"resource", resource_}});
}

void Plugin::complain(std::string what) {
  if (what == complaint_) return;
  complaint_ = std::move(what);
  log_.warning("plugin", complaint_, {{"resource", resource_}});
}

}  // namespace simm::kube
