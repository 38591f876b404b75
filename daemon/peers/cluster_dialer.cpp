#include "daemon/peers/cluster_dialer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/cluster/hello/hello_dialer.h"
#include "ipc/text_list.h"
#include "simm/check.h"

namespace simm::control {
namespace {

constexpr base::TimeNs kLookUpTimeNs = 5 * base::kNsPerSecond;

}  // namespace

ClusterDialer::ClusterDialer(ClusterAccess& access, DialTarget target, ClusterDialerEvents& events)
    : access_(access),
      target_(std::move(target)),
      addresses_(ipc::text_list(target_.address)),
      address_(addresses_.empty() ? target_.address : addresses_.front()),
      events_(events),
      timer_(access.io),
      resolver_(access.io),
      counters_(access.counters) {}

ClusterDialer::~ClusterDialer() {
  stop();
}

void ClusterDialer::start() {
  if (state_ == State::dialling) return;
  untried_ = addresses_.size();
  dial_soon();
}

void ClusterDialer::dial_soon() {
  state_ = State::dialling;
  // Not from in here: the owner may still be at work on itself.
  timer_.after(0, [this] { dial(); });
}

void ClusterDialer::redial(base::TimeNs at_least_ns, std::size_t herd) {
  if (state_ != State::connected) return;
  const bool had_lasted = backoff_.on_lost(access_.clock.now_ns());
  if (!had_lasted && at_least_ns == 0 && untried_ > 0) return dial_soon();
  // Not all at one moment, those who were told the same.
  const base::TimeNs spread_ns = at_least_ns == 0 ? 0 : access_.random.below(at_least_ns);
  wait(std::max({backoff_.next_wait_ns(access_.random), at_least_ns + spread_ns,
                 cluster::Backoff::herd_wait_ns(access_.random, herd)}));
}

bool ClusterDialer::hurry() {
  if (state_ == State::waiting && is_away_) start();
  return is_away_;
}

void ClusterDialer::stop() {
  state_ = State::idle;
  timer_.cancel();
  lookup_alive_.reset();
  resolver_.cancel();
  session_.reset();
}

void ClusterDialer::wait(base::TimeNs wait_ns) {
  state_ = State::waiting;
  untried_ = addresses_.size();
  timer_.after(wait_ns, [this] {
    state_ = State::dialling;
    dial();
  });
}

void ClusterDialer::dial() {
  if (!addresses_.empty()) address_ = addresses_[attempts_ % addresses_.size()];
  ++attempts_;
  if (untried_ > 0) --untried_;
  if (const auto address = cluster::SocketAddress::parse(address_)) {
    return connect(*address);
  }
  const auto where = cluster::split_host_port(address_);
  if (!where) {
    return fail({Status::invalid_argument,
                 "no address; write for example 10.0.0.7:30001, "
                 "[fd00::7]:30001 or manager.example.org:30001"});
  }
  look_up(*where);
}

void ClusterDialer::look_up(const cluster::HostAndPort& where) {
  timer_.after(kLookUpTimeNs, [this] {
    lookup_alive_.reset();
    resolver_.cancel();
    fail({Status::timeout, "the name was not looked up in time"});
  });
  lookup_alive_ = std::make_shared<bool>(true);
  resolver_.async_resolve(
      where.host, std::to_string(where.port),
      [this, alive = std::weak_ptr<bool>(lookup_alive_)](const boost::system::error_code& failed,
                                                         const Resolver::results_type& results) {
        if (alive.expired()) return;
        lookup_alive_.reset();
        timer_.cancel();
        if (failed) return fail({Status::unreachable, "no such name: " + failed.message()});
        on_looked_up(results);
      });
}

void ClusterDialer::on_looked_up(const Resolver::results_type& results) {
  if (results.empty()) return fail({Status::unreachable, "the name has no address"});
  auto chosen = results.begin();
  std::advance(chosen, static_cast<std::ptrdiff_t>(attempts_ % results.size()));
  const auto endpoint = chosen->endpoint();
  sockaddr_storage storage{};
  // SAFETY: an endpoint is a sockaddr_in or sockaddr_in6; both fit into a sockaddr_storage.
  SIMM_CHECK(endpoint.size() <= sizeof(storage));
  std::memcpy(&storage, endpoint.data(), endpoint.size());
  const auto address = cluster::SocketAddress::from(storage);
  if (!address) return fail({Status::unreachable, "the name has no internet address"});
  connect(*address);
}

void ClusterDialer::connect(const cluster::SocketAddress& address) {
  // What answers there could be anybody, when nobody proves anything.
  const Outcome allowed = cluster::check_reach(address, access_.secret, target_.key);
  if (!allowed) return fail(allowed.error());
  auto socket = start_connect(address);
  if (!socket) return fail(std::move(socket).error());
  auto machine = std::make_unique<cluster::HelloDialer>(access_.secret, access_.self,
                                                        target_.request, access_.random);
  session_ = std::make_unique<HelloSession>(
      access_, std::move(*socket), std::move(machine),
      [this](Expected<cluster::HelloResult> result) { on_hello_over(std::move(result)); });
  session_->start(true, kHelloTimeNs);
}

void ClusterDialer::on_hello_over(Expected<cluster::HelloResult> result) {
  // Alive until the end of this call, which comes from inside it.
  const std::unique_ptr<HelloSession> session = std::move(session_);
  if (!result) {
    return fail({result.status(), result.error().context + session->peer_claim()});
  }
  state_ = State::connected;
  is_away_ = false;
  counters_.connected.add();
  backoff_.on_connected(access_.clock.now_ns());
  events_.on_dialled(*this, session->take_socket(), *result);
}

void ClusterDialer::fail(Error error) {
  counters_.failed.add();
  error.context = target_.key + ": " + address_ + ": " + error.context;
  access_.errors.record("cluster.dial", error.status, error.context);
  is_away_ = error.status == Status::unreachable || error.status == Status::timeout;
  if (untried_ > 0) {
    dial_soon();
  } else if (error.status == Status::out_of_memory) {
    wait(backoff_.next_room_wait_ns(access_.random));
  } else {
    wait(backoff_.next_wait_ns(access_.random,
                               is_away_ ? target_.away_wait_ns : cluster::Backoff::kLongestNs));
  }
  events_.on_dial_failed(*this, error);
}

}  // namespace simm::control
