// TCP sockets of the cluster: opened without blocking, closed on exec, tuned the same way at both
// ends. Plain functions over descriptors; errors name the address. Thread: any (control in use).
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/cluster/socket_address.h"
#include "ipc/fd.h"

namespace simm::control {

// How long the kernel keeps a connection whose peer acknowledges nothing (data on its way, or
// keep-alive probes). A dead host is found by heartbeats long before; this frees the socket.
inline constexpr int kTcpDeadAfterMs = 10'000;

// Listens; a port of 0 takes a free one (see bound_address).
Expected<ipc::UniqueFd> listen_tcp(const cluster::SocketAddress& address, int backlog);
// Where a socket listens.
Expected<cluster::SocketAddress> bound_address(int socket);

struct AcceptedTcp {
  ipc::UniqueFd socket;
  cluster::SocketAddress peer;
};
// Nothing: nobody is there (any more).
Expected<std::optional<AcceptedTcp>> accept_tcp(int listening);

// Begins to connect: writable when it is decided; then ask connect_result().
Expected<ipc::UniqueFd> start_connect(const cluster::SocketAddress& address);
Outcome connect_result(int socket);

enum class TcpResult : std::uint8_t { moved, would_block, hung_up };
struct TcpMoved {
  TcpResult result = TcpResult::would_block;
  std::size_t bytes = 0;
  int cause = 0;  // errno, when hung up by an error; 0: the peer closed
};
// Never raise SIGPIPE, never block.
TcpMoved receive_tcp(int socket, std::span<std::byte> into) noexcept;
TcpMoved send_tcp(int socket, std::span<const std::byte> from) noexcept;

}  // namespace simm::control
