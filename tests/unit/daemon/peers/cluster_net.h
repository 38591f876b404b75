// Two daemons of one cluster in one io_context over real loopback sockets, driven by the test's own
// polling: one listens, the other one dials. And a raw connection, for whoever is no daemon.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/real_clock.h"
#include "daemon/peers/cluster_channel.h"
#include "daemon/peers/cluster_dialer.h"
#include "daemon/peers/cluster_listener.h"
#include "tests/support/turns_until.h"

namespace cluster_net {

using namespace simm;
using Bytes = std::vector<std::byte>;

// Runs what is ready in `io` until `done`; a test that never gets there fails.
inline void poll_until(boost::asio::io_context& io, const std::function<bool()>& done) {
  const auto turn = [&io] {
    io.restart();
    return io.poll() > 0;
  };
  const bool is_done = test_support::turns_until(turn, done);
  CHECK(is_done);
}

inline Bytes text(const std::string& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

inline cluster::ClusterSecret secret_of(char letter) {
  auto secret = cluster::ClusterSecret::from_text(std::string(40, letter) + "0123456789");
  REQUIRE(secret.has_value());
  return std::move(*secret);
}

// What one daemon makes its connections with.
struct Daemon {
  Daemon(boost::asio::io_context& io, cluster::ClusterSecret known, std::string name,
         std::uint64_t number, cluster::ClusterRole role)
      : random(number),
        errors(clock),
        log(clock, base::LogLevel::error),
        events(clock, log, counters),
        limits(counters),
        secret(std::move(known)) {
    self.cluster = "test";
    self.name = std::move(name);
    self.incarnation = {number, number};
    self.role = role;
    self.shards = role == cluster::ClusterRole::storage ? 2 : 0;
    access = std::make_unique<control::ClusterAccess>(
        control::ClusterAccess{io, clock, random, counters, limits, errors, secret, self, events});
  }
  base::RealClock clock;
  base::SeededRandom random;
  base::CounterSet counters;
  base::ErrorLog errors;
  base::Log log;
  base::EventLog events;
  base::LimitCounters limits;
  cluster::ClusterSecret secret;
  cluster::HelloSelf self;
  std::unique_ptr<control::ClusterAccess> access;
};

struct Arrived {
  ipc::UniqueFd socket;
  cluster::HelloResult result;
};

struct Accepting : control::ClusterListenerEvents {
  void on_accepted(ipc::UniqueFd socket, const cluster::HelloResult& result) override {
    arrived.push_back({std::move(socket), result});
  }
  bool has_room_for(const cluster::HelloPeer&, const cluster::HelloRequest&) override {
    return has_room;
  }
  bool has_room = true;
  std::vector<Arrived> arrived;
};

struct Dialling : control::ClusterDialerEvents {
  void on_dialled(control::ClusterDialer&, ipc::UniqueFd socket,
                  const cluster::HelloResult& result) override {
    arrived.push_back({std::move(socket), result});
  }
  void on_dial_failed(control::ClusterDialer&, const Error& error) override {
    failed.push_back(error);
  }
  std::vector<Arrived> arrived;
  std::vector<Error> failed;
};

// A TCP connection of the tests, blocking writes, reads that poll.
class RawPeer {
public:
  explicit RawPeer(const cluster::SocketAddress& address)
      : socket_(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(::connect(socket_.get(), address.raw(), address.raw_bytes()) == 0);
  }
  explicit RawPeer(ipc::UniqueFd socket) : socket_(std::move(socket)) {}
  void send(std::span<const std::byte> bytes) const {
    [[maybe_unused]] const auto sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // What is there now. Sets `over` at the end of the stream.
  Bytes receive() {
    Bytes bytes(4096);
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    over = over || got == 0 || (got < 0 && errno != EAGAIN);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  [[nodiscard]] bool is_over() {
    (void)receive();
    return over;
  }
  [[nodiscard]] int fd() const { return socket_.get(); }
  bool over = false;

private:
  ipc::UniqueFd socket_;
};

class Net {
public:
  Net() : Net(secret_of('s'), secret_of('s')) {}
  Net(cluster::ClusterSecret here, cluster::ClusterSecret there)
      : store(io, std::move(here), "store-1", 2, cluster::ClusterRole::storage),
        node(io, std::move(there), "node-1", 1, cluster::ClusterRole::node),
        listener(*store.access, accepting) {
    const Outcome listening = listener.listen("storage.listen", "127.0.0.1:0");
    REQUIRE(listening.has_value());
  }

  void until(const std::function<bool()>& done) { poll_until(io, done); }

  control::DialTarget target(cluster::HelloRequest request = {}) {
    return {"storage.address", listener.address().text(), request};
  }
  static cluster::HelloRequest data_request(std::uint16_t shard = 1) {
    return {cluster::HelloPurpose::data, {2, 2}, shard, 42};
  }

  // Both ends of a connection that works.
  std::pair<Arrived, Arrived> connect(cluster::HelloRequest request = {}) {
    control::ClusterDialer dialer(*node.access, target(request), dialling);
    dialer.start();
    until([this] { return !dialling.arrived.empty() && !accepting.arrived.empty(); });
    std::pair<Arrived, Arrived> both(std::move(dialling.arrived.at(0)),
                                     std::move(accepting.arrived.at(0)));
    dialling.arrived.clear();
    accepting.arrived.clear();
    return both;
  }

  boost::asio::io_context io;
  Daemon store;
  Daemon node;
  Accepting accepting;
  Dialling dialling;
  control::ClusterListener listener;
};

}  // namespace cluster_net
