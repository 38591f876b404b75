// What somebody who can reach the port, and does not know the secret, can do to a listener.
#include <doctest/doctest.h>

#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>

#include "daemon/cluster/hello/hello_dialer.h"
#include "tests/unit/daemon/peers/cluster_net.h"

namespace cluster_intruder_test {

using namespace cluster_net;

// A node whose hello goes as far as the test wants.
struct Hello {
  explicit Hello(Net& net)
      : dialer(net.node.secret, net.node.self, Net::data_request(), net.node.random) {}
  Bytes take() {
    Bytes bytes(dialer.outgoing().begin(), dialer.outgoing().end());
    dialer.sent(bytes.size());
    return bytes;
  }
  cluster::HelloDialer dialer;
};

TEST_CASE("garbage, a half hello and silence are hung up on, the latter two after their time") {
  Net net;
  RawPeer garbage(net.listener.address());
  RawPeer half(net.listener.address());
  RawPeer silent(net.listener.address());
  garbage.send(Bytes(64, std::byte{'G'}));
  const Bytes hello = Hello(net).take();
  half.send(std::span(hello).first(100));
  const base::TimeNs from_ns = net.store.clock.now_ns();
  net.until([&] { return garbage.is_over(); });
  CHECK(garbage.receive().empty());
  net.until([&] { return half.is_over() && silent.is_over(); });
  CHECK(net.store.clock.now_ns() - from_ns >= control::kHelloTimeNs / 2);
  CHECK(net.listener.unauthenticated() == 0);
  CHECK(net.store.counters.value("cluster.listener.refused") == 3);
  CHECK(net.accepting.arrived.empty());
}

TEST_CASE("a byte now and then does not buy time") {
  Net net;
  RawPeer slow(net.listener.address());
  const Bytes hello = Hello(net).take();
  const base::TimeNs from_ns = net.store.clock.now_ns();
  base::TimeNs next_ns = from_ns;
  std::size_t sent = 0;
  net.until([&] {
    if (net.store.clock.now_ns() >= next_ns && sent < hello.size()) {
      slow.send(std::span(hello).subspan(sent++, 1));
      next_ns += 20 * base::kNsPerMs;
    }
    return slow.is_over();
  });
  CHECK(sent < hello.size());
  CHECK(net.listener.unauthenticated() == 0);
}

// Those that a listener has at each stage, in a process that may open as much as this one.
constexpr std::size_t kPlaces = 512;

// Both ends of all connections are in this process.
void limit_descriptors() {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = kPlaces * base::kHelloDescriptorsPart;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

// Connected from another address of this host, one of many.
RawPeer from_elsewhere(const cluster::SocketAddress& to, std::uint32_t which = 1) {
  ipc::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + which);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0);
  REQUIRE(::connect(socket.get(), to.raw(), to.raw_bytes()) == 0);
  return RawPeer(std::move(socket));
}

TEST_CASE("silent connections of one address take no place from a hello of another one") {
  limit_descriptors();
  Net net;
  std::deque<RawPeer> silent;
  const auto come = [&](std::size_t connections) {
    for (std::size_t i = 0; i < connections; ++i) {
      silent.push_back(from_elsewhere(net.listener.address()));
    }
    net.io.restart();
    net.io.poll();
  };
  const base::TimeNs began_ns = net.store.clock.now_ns();
  for (std::size_t came = 0; came < kPlaces - 64; came += 64) come(64);
  RawPeer honest(net.listener.address());
  // Few, because a hello has little time: those that take the last places, and twice as many.
  const base::TimeNs from_ns = net.store.clock.now_ns();
  constexpr std::size_t kLate = 192;
  for (std::size_t came = 0; came < kLate; came += 64) come(64);
  const Bytes hello = Hello(net).take();
  honest.send(hello);
  Bytes answer;
  net.until([&] {
    answer = honest.receive();
    return !answer.empty() || honest.over;
  });
  CHECK_FALSE(answer.empty());
  const auto evicted = [&] { return net.store.counters.value("cluster.listener.evicted"); };
  // On a machine so slow that the first ones were late, there was room.
  const bool is_slow = from_ns - began_ns >= base::kNsPerSecond / 2;
  net.until([&] { return is_slow || evicted() > 0; });
  const double seconds = static_cast<double>(net.store.clock.now_ns() - from_ns) / 1e9;
  MESSAGE("silent connections a second: " << static_cast<double>(kLate) / seconds);
}

TEST_CASE("who has proved itself keeps its place, wherever silent connections come from") {
  limit_descriptors();
  Net net;
  net.store.self.features = net.node.self.features = cluster::kFeaturePathProof;
  Hello hello(net);
  RawPeer honest(net.listener.address());
  const auto take_and_say = [&] {
    const Bytes got = honest.receive();
    for (std::span<const std::byte> rest = got; !rest.empty();) {
      const std::size_t now = std::min(rest.size(), hello.dialer.wanted());
      hello.dialer.feed(rest.first(now));
      rest = rest.subspan(now);
    }
    if (!hello.dialer.is_proving_path()) honest.send(hello.take());
    return hello.dialer.is_proving_path();
  };
  const base::TimeNs from_ns = net.store.clock.now_ns();
  net.until(take_and_say);
  std::deque<RawPeer> silent;
  const auto evicted = [&] { return net.store.counters.value("cluster.listener.evicted"); };
  net.until([&] {
    for (int i = 0; i < 16 && silent.size() < kPlaces + 64; ++i) {
      const auto which = static_cast<std::uint32_t>(silent.size()) + 1;
      silent.push_back(from_elsewhere(net.listener.address(), which));
    }
    return evicted() >= 32;
  });
  // Not on a machine so slow that its time was over.
  if (net.store.clock.now_ns() - from_ns >= control::kHelloTimeNs) return;
  honest.send(hello.take());
  net.until([&] { return !net.accepting.arrived.empty() || honest.is_over(); });
  CHECK(net.accepting.arrived.size() == 1);
}

TEST_CASE("daemons behind one address keep their places while silent ones come from there") {
  limit_descriptors();
  Net net;
  net.store.self.features = net.node.self.features = cluster::kFeaturePathProof;
  struct Honest {
    explicit Honest(Net& net) : hello(net), peer(net.listener.address()) {}
    Hello hello;
    RawPeer peer;
  };
  std::deque<Honest> honest;
  std::deque<RawPeer> silent;
  const base::TimeNs from_ns = net.store.clock.now_ns();
  // All of them say their hello, and none has answered the challenge.
  for (std::size_t i = 0; i < kPlaces - 1; ++i) {
    honest.emplace_back(net);
    honest.back().peer.send(honest.back().hello.take());
    if (i % 100 == 99) {
      net.io.restart();
      net.io.poll();
    }
  }
  const auto evicted = [&] { return net.store.counters.value("cluster.listener.evicted"); };
  net.until([&] {
    for (int i = 0; i < 16 && silent.size() < kPlaces + 64; ++i) {
      silent.emplace_back(net.listener.address());
    }
    return evicted() >= 32;
  });
  // Not on a machine so slow that their time was over.
  if (net.store.clock.now_ns() - from_ns >= control::kHelloTimeNs / 2) return;
  net.until([&] {
    for (Honest& one : honest) {
      const Bytes got = one.peer.receive();
      for (std::span<const std::byte> rest = got; !rest.empty();) {
        const std::size_t now = std::min(rest.size(), one.hello.dialer.wanted());
        one.hello.dialer.feed(rest.first(now));
        rest = rest.subspan(now);
      }
      one.peer.send(one.hello.take());
    }
    const std::size_t over = net.accepting.arrived.size();
    const auto is_gone = [](Honest& one) { return one.peer.over; };
    return over == honest.size() || std::any_of(honest.begin(), honest.end(), is_gone);
  });
  CHECK(net.accepting.arrived.size() == honest.size());
}

TEST_CASE("silent connections in any number keep nobody out") {
  limit_descriptors();
  Net net;
  std::deque<RawPeer> silent;
  for (int i = 0; i < 700; ++i) silent.emplace_back(net.listener.address());
  std::size_t most = 0;
  control::ClusterDialer dialer(*net.node.access, net.target(), net.dialling);
  dialer.start();
  net.until([&] {
    most = std::max(most, net.listener.unauthenticated());
    // Whoever is hung up on comes again.
    for (RawPeer& peer : silent) {
      if (peer.is_over()) peer = RawPeer(net.listener.address());
    }
    return !net.dialling.arrived.empty();
  });
  CHECK(most <= kPlaces);
  CHECK(net.store.counters.value("cluster.listener.evicted") > 0);
  CHECK(net.store.counters.value("limit.hellos_per_port.reached") > 0);
}

TEST_CASE("a recorded hello, played again over a new connection, is refused") {
  Net net;
  // The honest one, and what it said.
  Hello honest(net);
  RawPeer first(net.listener.address());
  std::vector<Bytes> said;
  net.until([&] {
    if (!honest.dialer.outgoing().empty()) {
      said.push_back(honest.take());
      first.send(said.back());
    }
    Bytes got = first.receive();
    for (std::span<const std::byte> rest = got; !rest.empty();) {
      const std::size_t now = std::min(rest.size(), honest.dialer.wanted());
      honest.dialer.feed(rest.first(now));
      rest = rest.subspan(now);
    }
    return honest.dialer.state() == cluster::HelloMachine::State::done;
  });
  REQUIRE(said.size() == 2);
  net.until([&] { return net.accepting.arrived.size() == 1; });
  RawPeer again(net.listener.address());
  again.send(said[0]);
  again.send(said[1]);
  net.until([&] { return again.is_over(); });
  CHECK(net.accepting.arrived.size() == 1);
  CHECK(net.store.counters.value("cluster.listener.refused") == 1);
}

TEST_CASE("a peer that hangs up at any byte of its hello leaves nothing behind") {
  Net net;
  const Bytes hello = Hello(net).take();
  std::size_t peers = 0;
  for (std::size_t length = 0; length <= hello.size(); length += 15, ++peers) {
    RawPeer peer(net.listener.address());
    peer.send(std::span(hello).first(length));
  }
  net.until([&] { return net.store.counters.value("cluster.listener.refused") == peers; });
  CHECK(net.listener.unauthenticated() == 0);
}

TEST_CASE("a listener that stops hangs up on those who were not through, and takes nobody") {
  Net net;
  RawPeer peer(net.listener.address());
  net.until([&] { return net.listener.unauthenticated() == 1; });
  net.listener.stop();
  CHECK(net.listener.unauthenticated() == 0);
  net.until([&] { return peer.is_over(); });
}

}  // namespace cluster_intruder_test
