#include "daemon/peers/cluster_listener.h"

#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/cluster/hello/hello_acceptor.h"

namespace simm::control {
namespace {

// The kernel takes as many as net.core.somaxconn allows. One that it does not take is late by 1 s.
constexpr int kClusterBacklog = 4096;
constexpr base::TimeNs kAcceptAgainNs = 100 * base::kNsPerMs;  // others may free descriptors

// Who has one address of an IPv6 network has them all.
std::uint64_t source_of(const cluster::SocketAddress& peer) noexcept {
  std::uint64_t source = 0;
  if (peer.family() == AF_INET) {
    // SAFETY: raw() is as long as its family says; copied, because it has no type of its own.
    sockaddr_in four{};
    std::memcpy(&four, peer.raw(), sizeof four);
    return four.sin_addr.s_addr;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, peer.raw(), std::min<std::size_t>(sizeof six, peer.raw_bytes()));
  const auto* const bytes = six.sin6_addr.s6_addr;
  std::memcpy(&source, IN6_IS_ADDR_V4MAPPED(&six.sin6_addr) ? bytes + 8 : bytes, sizeof source);
  return source;
}

std::size_t descriptors_max() noexcept {
  rlimit bound{};
  return ::getrlimit(RLIMIT_NOFILE, &bound) == 0 ? bound.rlim_cur : 0;
}

}  // namespace

ClusterListener::ClusterListener(ClusterAccess& access, ClusterListenerEvents& events)
    : access_(access),
      events_(events),
      readable_(access.io),
      retry_(access.io),
      places_(HelloPlaces::places_of(descriptors_max())),
      turns_(access.io, access.clock),
      counters_(access.counters) {}

Outcome ClusterListener::listen(std::string_view key, std::string_view address) {
  const auto wanted = cluster::SocketAddress::parse(address);
  if (!wanted) {
    return Error{Status::invalid_argument, std::string(key) + ": '" + std::string(address) +
                                               "' is no address to listen on; write for example "
                                               "127.0.0.1:30001 or [::]:30001"};
  }
  const Outcome allowed = cluster::check_reach(*wanted, access_.secret, key);
  if (!allowed) return allowed.error();
  auto socket = listen_tcp(*wanted, kClusterBacklog);
  if (!socket) {
    return Error{socket.status(), std::string(key) + ": " + socket.error().context};
  }
  auto bound = bound_address(socket->get());
  if (!bound) return std::move(bound).error();
  if (!readable_.watch(socket->get())) {
    return Error{Status::io_error, wanted->text() + ": can not be watched for connections"};
  }
  socket_ = std::move(*socket);
  address_ = *bound;
  accept_when_possible();
  return Done{};
}

void ClusterListener::stop() {
  readable_.stop();
  retry_.cancel();
  while (!sessions_.empty()) forget(sessions_.begin()->first);
  socket_.reset();
}

void ClusterListener::accept_when_possible() {
  if (waiting_ || !socket_.valid()) return;
  waiting_ = true;
  readable_.when_readable([this] {
    waiting_ = false;
    accept_one();
  });
}

void ClusterListener::forget(HelloPlaces::Id id) {
  places_.remove(id);
  sessions_.erase(id);
}

bool ClusterListener::make_room() {
  if (!places_.is_full()) return true;
  access_.limits.reached(base::Limit::hellos_per_port);
  const base::TimeNs wait_ns = places_.room(access_.clock.now_ns()).wait_ns;
  if (wait_ns == 0) return true;
  retry_.after(wait_ns, [this] { accept_when_possible(); });
  return false;
}

void ClusterListener::accept_one() {
  if (!make_room()) return;
  auto accepted = accept_tcp(socket_.get());
  if (!accepted) {
    access_.errors.record("cluster.accept", accepted.status(), accepted.error().context);
    access_.limits.reached(base::Limit::descriptors);
    // Not at once: the connection is still there, so the socket stays readable.
    return retry_.after(kAcceptAgainNs, [this] { accept_when_possible(); });
  }
  if (accepted->has_value()) {
    const base::TimeNs now_ns = access_.clock.now_ns();
    for (const auto& going : places_.room(now_ns).going) {
      if (!going) continue;
      counters_.evicted.add();
      forget(*going);
    }
    AcceptedTcp& connection = **accepted;
    const HelloPlaces::Id id = next_id_++;
    auto machine = std::make_unique<cluster::HelloAcceptor>(
        access_.secret, access_.self, access_.random,
        [this](const cluster::HelloPeer& peer, const cluster::HelloRequest& request) {
          return events_.has_room_for(peer, request);
        });
    auto session = std::make_unique<HelloSession>(
        access_, std::move(connection.socket), std::move(machine),
        [this, id, peer = connection.peer](Expected<cluster::HelloResult> result) {
          on_hello_over(id, peer, std::move(result));
        });
    session->attend(turns_, [this, id](HelloStage stage) { places_.advance(id, stage); });
    session->start(false, kHelloTimeNs);
    places_.add(id, source_of(connection.peer), now_ns);
    sessions_.emplace(id, std::move(session));
  }
  accept_when_possible();
}

void ClusterListener::on_hello_over(HelloPlaces::Id id, const cluster::SocketAddress& peer,
                                    Expected<cluster::HelloResult> result) {
  // Alive until the end of this call, which comes from inside it.
  const std::unique_ptr<HelloSession> session = std::move(sessions_.at(id));
  forget(id);
  accept_when_possible();
  if (!result) {
    counters_.refused.add();
    // A stranger has as many addresses, and claims as many versions, as it likes: these make no
    // errors of their own.
    const std::string from = peer.text();
    access_.errors.record("cluster.hello", result.status(), result.error().context,
                          from.substr(0, from.rfind(':')) + session->peer_claim());
    return;
  }
  counters_.accepted.add();
  events_.on_accepted(session->take_socket(), *result);
}

}  // namespace simm::control
