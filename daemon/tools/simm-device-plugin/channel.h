// A connection to a socket of this host, for one question. gRPC waits up to two minutes before a
// connection tries again a socket that was not there; a new one tries at once. Thread: any.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

namespace simm::kube {

inline constexpr int kKubeletAnswerBytesMax = 16 << 20;  // what the kubelet's own clients take

inline std::shared_ptr<grpc::Channel> connect_to(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kKubeletAnswerBytesMax);
  // Kubernetes' servers are Go's, which want a name of a host here.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace simm::kube
