#include "daemon/peers/cluster_listener.h"

#include <string>
#include <utility>

#include "daemon/cluster/hello/hello_acceptor.h"

namespace simm::control {
namespace {

constexpr int kClusterBacklog = 1024;
constexpr base::TimeNs kAcceptAgainNs = 100 * base::kNsPerMs;  // others may free descriptors

}  // namespace

ClusterListener::ClusterListener(ClusterAccess& access, ClusterListenerEvents& events)
    : access_(access), events_(events), readable_(access.io), retry_(access.io) {
  accepted_ = access.counters.counter("cluster.listener.accepted");
  refused_ = access.counters.counter("cluster.listener.refused");
  evicted_ = access.counters.counter("cluster.listener.evicted");
}

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

bool ClusterListener::make_room() {
  if (sessions_.size() < base::kUnauthenticatedMax) return true;
  access_.limits.reached(base::Limit::unauthenticated_per_socket);
  const auto oldest = sessions_.begin();
  const base::TimeNs age_ns = access_.clock.now_ns() - oldest->second->started_ns();
  if (age_ns >= kHelloChanceNs) {
    evicted_.add();
    sessions_.erase(oldest);
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
    AcceptedTcp& connection = **accepted;
    const std::uint64_t id = next_id_++;
    auto machine =
        std::make_unique<cluster::HelloAcceptor>(access_.secret, access_.self, access_.random);
    auto session = std::make_unique<HelloSession>(
        access_, std::move(connection.socket), std::move(machine),
        [this, id, peer = connection.peer](Expected<cluster::HelloResult> result) {
          on_hello_over(id, peer, std::move(result));
        });
    session->start(false, kHelloTimeNs);
    sessions_.emplace(id, std::move(session));
  }
  accept_when_possible();
}

void ClusterListener::on_hello_over(std::uint64_t id, const cluster::SocketAddress& peer,
                                    Expected<cluster::HelloResult> result) {
  // Alive until the end of this call, which comes from inside it.
  const std::unique_ptr<HelloSession> session = std::move(sessions_.at(id));
  sessions_.erase(id);
  accept_when_possible();
  if (!result) {
    refused_.add();
    // Without the port, which would make each attempt an error of its own.
    const std::string text = peer.text();
    access_.errors.record(
        "cluster.hello", result.status(),
        "from " + text.substr(0, text.rfind(':')) + ": " + result.error().context);
    return;
  }
  accepted_.add();
  events_.on_accepted(session->take_socket(), *result);
}

}  // namespace simm::control
