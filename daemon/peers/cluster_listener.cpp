#include "daemon/peers/cluster_listener.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/cluster/hello/hello_acceptor.h"

namespace simm::control {
namespace {

constexpr int kClusterBacklog = 1024;
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

}  // namespace

ClusterListener::ClusterListener(ClusterAccess& access, ClusterListenerEvents& events)
    : access_(access),
      events_(events),
      readable_(access.io),
      retry_(access.io),
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
  sessions_.clear();
  of_source_.clear();
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

bool ClusterListener::may_go(const HelloSession& session) const {
  return !session.is_proved() || access_.clock.now_ns() - session.started_ns() >= kHelloTimeNs;
}

ClusterListener::Hellos::iterator ClusterListener::first_to_go() {
  std::size_t most = 0;
  auto first = sessions_.end();
  for (auto one = sessions_.begin(); one != sessions_.end(); ++one) {
    const std::size_t count = of_source_.at(one->second.source);
    if (count <= most || !may_go(*one->second.session)) continue;
    most = count;
    first = one;
  }
  return first;
}

void ClusterListener::forget(Hellos::iterator hello) {
  const auto counted = of_source_.find(hello->second.source);
  if (--counted->second == 0) of_source_.erase(counted);
  sessions_.erase(hello);
}

bool ClusterListener::make_room() {
  if (sessions_.size() < base::kHellosMax) return true;
  access_.limits.reached(base::Limit::hellos_per_port);
  const auto oldest = first_to_go();
  if (oldest == sessions_.end()) {
    retry_.after(kHelloChanceNs, [this] { accept_when_possible(); });
    return false;
  }
  const base::TimeNs age_ns = access_.clock.now_ns() - oldest->second.session->started_ns();
  if (age_ns >= kHelloChanceNs || of_source_.at(oldest->second.source) > kHellosOfSource) {
    return true;
  }
  retry_.after(kHelloChanceNs - age_ns, [this] { accept_when_possible(); });
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
    if (sessions_.size() >= base::kHellosMax) {
      counters_.evicted.add();
      forget(first_to_go());
    }
    AcceptedTcp& connection = **accepted;
    const std::uint64_t id = next_id_++;
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
    session->start(false, kHelloTimeNs);
    const std::uint64_t source = source_of(connection.peer);
    sessions_.emplace(id, Hello{std::move(session), source});
    ++of_source_[source];
  }
  accept_when_possible();
}

void ClusterListener::on_hello_over(std::uint64_t id, const cluster::SocketAddress& peer,
                                    Expected<cluster::HelloResult> result) {
  // Alive until the end of this call, which comes from inside it.
  const auto hello = sessions_.find(id);
  const std::unique_ptr<HelloSession> session = std::move(hello->second.session);
  forget(hello);
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
