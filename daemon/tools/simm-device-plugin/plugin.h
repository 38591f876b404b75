// Plugin: the resource of one tenant: its socket in the kubelet's directory, its service behind
// that, its registration. A kubelet that starts empties the directory and makes another
// kubelet.sock. Each turn compares what is there with what was, and makes good what is missing.
// Owner and thread: main().
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <optional>
#include <string>

#include "daemon/tools/simm-device-plugin/file_identity.h"
#include "daemon/tools/simm-device-plugin/tenant_service.h"

namespace simm::kube {

class Plugin {
public:
  Plugin(const Options& options, const Tenant& tenant, PodLookup& pods, base::Log& log);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // About once a second.
  void turn();

private:
  void open();
  void close();
  void look_at_tenant();
  void register_with(const FileIdentity& kubelet);
  void complain(std::string what);

  const Options& options_;
  const Tenant& tenant_;
  PodLookup& pods_;
  base::Log& log_;
  const std::string resource_;
  const std::string socket_;

  std::unique_ptr<TenantService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<FileIdentity> own_;              // of the socket that the server listens at
  std::optional<FileIdentity> registered_with_;  // of kubelet.sock
  std::string complaint_;                        // said once, and again when it is another one
};

}  // namespace simm::kube
