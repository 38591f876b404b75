#include "daemon/tools/simm-bench/raw_stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/tools/simm-bench/network_guest.h"

namespace simm::bench {
namespace {

constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr int kSilenceMs = 60'000;

// What one connection has still to do of one call.
struct Part {
  std::uint64_t out = 0;
  std::uint64_t in = 0;
};
// Begins each call on each connection; the same machine at both ends.
struct Order {
  std::uint64_t is_put;
  std::uint64_t bytes;
};

sockaddr_in ipv4(const std::string& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

void no_delay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool send_all(int socket, const void* bytes, std::size_t count) {
  return send(socket, bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count);
}

// The server's side of one connection, until its end.
void answer(int socket, std::vector<std::byte>& memory) {
  Order order{};
  while (recv(socket, &order, sizeof order, MSG_WAITALL) == sizeof order) {
    for (std::uint64_t left = order.bytes; left > 0;) {
      const std::size_t chunk = std::min<std::uint64_t>(left, memory.size());
      const ssize_t done = order.is_put != 0 ? recv(socket, memory.data(), chunk, 0)
                                             : send(socket, memory.data(), chunk, MSG_NOSIGNAL);
      if (done <= 0) return;
      left -= static_cast<std::uint64_t>(done);
    }
    const std::byte done{1};
    if (order.is_put != 0 && !send_all(socket, &done, 1)) return;
  }
}

// A process for each connection: they move at the same time.
[[noreturn]] void serve(int listener, std::size_t connections) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (std::size_t i = 0; i < connections; ++i) {
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) _exit(1);
    no_delay(socket);
    if (fork() != 0) {
      close(socket);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<std::byte> memory(kChunkBytes);
    answer(socket, memory);
    _exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  _exit(0);
}

Expected<ipc::UniqueFd> listen_in(const RawStream::End& server, sockaddr_in& address) {
  const Expected<NetworkGuest> guest = NetworkGuest::enter(server.network);
  if (!guest) return guest.error();
  ipc::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address = ipv4(server.address);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener || bind(listener.get(), generic, bytes) != 0 || listen(listener.get(), 16) != 0 ||
      getsockname(listener.get(), generic, &bytes) != 0) {
    return system_error(server.address, errno);
  }
  return listener;
}

}  // namespace

Expected<RawStream> RawStream::start(const End& server, const End& caller,
                                     std::size_t connections) {
  sockaddr_in address{};
  const Expected<ipc::UniqueFd> listener = listen_in(server, address);
  if (!listener) return listener.error();
  const pid_t child = fork();
  if (child < 0) return system_error("fork", errno);
  if (child == 0) serve(listener->get(), connections);
  RawStream stream({}, child);
  const Expected<NetworkGuest> guest = NetworkGuest::enter(caller.network);
  if (!guest) return guest.error();
  for (std::size_t i = 0; i < connections; ++i) {
    ipc::UniqueFd one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!one || connect(one.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address)) {
      return system_error(server.address, errno);
    }
    no_delay(one.get());
    stream.connections_.push_back(std::move(one));
  }
  return stream;
}

RawStream::RawStream(std::vector<ipc::UniqueFd> connections, pid_t server)
    : connections_(std::move(connections)), memory_(kChunkBytes), server_(server) {}

RawStream::RawStream(RawStream&& other) noexcept
    : connections_(std::move(other.connections_)),
      memory_(std::move(other.memory_)),
      server_(std::exchange(other.server_, -1)) {}

RawStream::~RawStream() {
  connections_.clear();
  if (server_ <= 0) return;
  kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
}

Outcome RawStream::call(std::uint64_t bytes, bool is_put) {
  const std::size_t count = connections_.size();
  std::vector<Part> parts(count);
  std::vector<pollfd> polled(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t own = bytes / count + (i < bytes % count ? 1 : 0);
    parts[i] = is_put ? Part{own, 1} : Part{0, own};
    const Order order{is_put ? 1u : 0u, own};
    if (!send_all(connections_[i].get(), &order, sizeof order)) return system_error("send", errno);
  }
  for (;;) {
    bool is_done = true;
    for (std::size_t i = 0; i < count; ++i) {
      const short events = static_cast<short>(parts[i].out > 0 ? POLLOUT : POLLIN);
      const bool is_open = parts[i].out + parts[i].in > 0;
      polled[i] = {is_open ? connections_[i].get() : -1, events, 0};
      is_done = is_done && !is_open;
    }
    if (is_done) return Done{};
    if (poll(polled.data(), count, kSilenceMs) <= 0) {
      return Error{Status::timeout, "raw TCP moved nothing for a minute"};
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (polled[i].revents == 0) continue;
      const bool sends = parts[i].out > 0;
      std::uint64_t& left = sends ? parts[i].out : parts[i].in;
      const std::size_t chunk = std::min<std::uint64_t>(left, memory_.size());
      const int socket = connections_[i].get();
      const ssize_t did = sends ? send(socket, memory_.data(), chunk, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : recv(socket, memory_.data(), chunk, MSG_DONTWAIT);
      if (did < 0 && errno == EAGAIN) continue;
      if (did <= 0) return system_error("raw TCP", did == 0 ? ECONNRESET : errno);
      left -= static_cast<std::uint64_t>(did);
    }
  }
}

}  // namespace simm::bench
