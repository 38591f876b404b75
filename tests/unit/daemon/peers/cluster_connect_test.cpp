#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/tcp.h>

#include <algorithm>

#include "daemon/cluster/membership.h"
#include "tests/unit/daemon/peers/cluster_net.h"

namespace cluster_connect_test {

using namespace cluster_net;

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof(value);
  REQUIRE(::getsockopt(socket, level, name, &value, &bytes) == 0);
  return value;
}

TEST_CASE("a data connection: both ends get a bare, tuned socket and know what it is for") {
  Net net;
  auto [mine, theirs] = net.connect(Net::data_request());
  CHECK(mine.result.peer.name == "store-1");
  CHECK(theirs.result.peer.name == "node-1");
  CHECK(theirs.result.request.purpose == cluster::HelloPurpose::data);
  CHECK(theirs.result.request.shard == 1);
  CHECK(theirs.result.request.link == 42);
  for (const Arrived* end : {&mine, &theirs}) {
    const int fd = end->socket.get();
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == control::kTcpDeadAfterMs);
    CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  // Not a byte too much or too little was read of it.
  RawPeer left(std::move(mine.socket)), right(std::move(theirs.socket));
  left.send(text("to the right"));
  right.send(text("to the left"));
  Bytes to_left, to_right;
  net.until([&] {
    for (const auto& [peer, bytes] : {std::pair(&left, &to_left), std::pair(&right, &to_right)}) {
      const Bytes got = peer->receive();
      bytes->insert(bytes->end(), got.begin(), got.end());
    }
    return to_left.size() >= 11 && to_right.size() >= 12;
  });
  CHECK(to_left == text("to the left"));
  CHECK(to_right == text("to the right"));
}

TEST_CASE("who does not fit is told, counted and not handed on; the dialer tries again") {
  struct Case {
    const char* what;
    std::function<void(Net&, cluster::HelloRequest&)> change;
    Status status;
  };
  const std::vector<Case> cases = {
      {"secrets differ", [](Net& n, auto&) { n.node.secret = secret_of('x'); },
       Status::permission_denied},
      {"no secret", [](Net& n, auto&) { n.node.secret = cluster::ClusterSecret::none(); },
       Status::permission_denied},
      {"cluster.name", [](Net& n, auto&) { n.node.self.cluster = "other"; },
       Status::permission_denied},
      {"restarted",
       [](Net&, auto& request) {
         request.target = {9, 9};
       },
       Status::unreachable},
      {"no such shard", [](Net&, auto& request) { request.shard = 2; }, Status::unreachable},
      {"version", [](Net& n, auto&) { n.node.self.version_min = n.node.self.version_max = 9; },
       Status::incompatible},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.what);
    Net net;
    cluster::HelloRequest request = Net::data_request();
    wrong.change(net, request);
    control::ClusterDialer dialer(*net.node.access, net.target(request), net.dialling);
    dialer.start();
    net.until([&] { return net.dialling.failed.size() >= 2; });
    CHECK(net.dialling.failed.at(0).status == wrong.status);
    CHECK(net.dialling.failed.at(0).context.find("storage.address: 127.0.0.1:") == 0);
    CHECK(net.accepting.arrived.empty());
    CHECK(net.store.counters.value("cluster.listener.refused") >= 1);
    CHECK(net.store.errors.entries().at(0).site == "cluster.hello");
    CHECK(net.store.errors.entries().size() == 1);
  }
}

TEST_CASE("without a secret a listener is on loopback, or it is not") {
  Net net(cluster::ClusterSecret::none(), cluster::ClusterSecret::none());
  (void)net.connect();  // loopback works
  for (const char* address : {"0.0.0.0:0", "[::]:0", "10.1.2.3:30001", "[fd00::1]:30001"}) {
    control::ClusterListener open(*net.store.access, net.accepting);
    const Outcome outcome = open.listen("storage.listen", address);
    CHECK(outcome.status() == Status::permission_denied);
    const std::string words = outcome.error().context;
    CHECK(words.find("storage.listen: " + std::string(address)) == 0);
    CHECK(words.find("cluster.secret_file") != std::string::npos);
    CHECK(words.find("127.0.0.1") != std::string::npos);
  }
  // Nor does a dialer believe what answers elsewhere.
  control::ClusterDialer dialer(*net.node.access, {"cluster.manager", "10.1.2.3:30001", {}},
                                net.dialling);
  dialer.start();
  net.until([&] { return !net.dialling.failed.empty(); });
  CHECK(net.dialling.failed.at(0).status == Status::permission_denied);
}

TEST_CASE("with a secret a listener may be anywhere; addresses that are none are named") {
  Net net;
  control::ClusterListener open(*net.store.access, net.accepting);
  CHECK(open.listen("storage.listen", "0.0.0.0:0").has_value());
  CHECK(open.address().port() != 0);
  for (const char* address : {"", "30001", "localhost:1", "1.2.3.4", "1.2.3.4:65536", "::1:30001",
                              "[::1]", "[127.0.0.1]:1", "1.2.3.4:1x"}) {
    control::ClusterListener none(*net.store.access, net.accepting);
    const Outcome outcome = none.listen("storage.listen", address);
    CHECK(outcome.status() == Status::invalid_argument);
    CHECK(outcome.error().context.find("storage.listen: '" + std::string(address)) == 0);
  }
  control::ClusterListener taken(*net.store.access, net.accepting);
  CHECK(taken.listen("storage.listen", net.listener.address().text()).status() == Status::io_error);
}

// What is ready in `io` now; a back-off is not.
void run_ready(boost::asio::io_context& io) {
  for (int turn = 0; turn < 20; ++turn) {
    io.restart();
    io.poll();
  }
}

TEST_CASE("all addresses of a list are tried before the dialer waits, and each once") {
  Net net;
  control::DialTarget target = net.target();
  target.address = "nowhere-1, nowhere-2, nowhere-3";
  control::ClusterDialer none(*net.node.access, target, net.dialling);
  // Until the waits are long.
  none.start();
  net.until([&] { return net.dialling.failed.size() >= 15; });
  none.stop();
  net.dialling.failed.clear();
  none.start();
  run_ready(net.io);
  CHECK(net.dialling.failed.size() == 3);
  none.stop();
  net.dialling.failed.clear();

  // One that answers and hangs up soon has failed as well: a manager that stands by.
  const std::string listening = net.listener.address().text();
  target.address = "nowhere-1," + listening + ",nowhere-2";
  control::ClusterDialer dialer(*net.node.access, target, net.dialling);
  dialer.start();
  net.until([&] { return !net.dialling.arrived.empty(); });
  CHECK(net.dialling.failed.size() == 1);
  CHECK(dialer.address() == listening);
  dialer.redial();
  run_ready(net.io);
  CHECK(net.dialling.failed.size() == 2);
  CHECK(dialer.address() == "nowhere-2");
}

TEST_CASE("the time for which a new manager keeps names is enough to find it") {
  // The wait at the end of a round that came just too early, then a silent address after the other.
  const base::TimeNs longest_ns =
      cluster::Backoff::kLongestNs + cluster::kManagersMax * control::kHelloTimeNs;
  CHECK(cluster::MembershipConfig{}.redial_ns >= longest_ns);
}

TEST_CASE("a hurried dialer does not wait for a peer that was away, but for one that hangs up") {
  struct Hurrying : control::ClusterDialerEvents {
    void on_dialled(control::ClusterDialer& dialer, ipc::UniqueFd,
                    const cluster::HelloResult&) override {
      ++reached;
      dialer.redial();
      was_away_when_lost = dialer.hurry();
    }
    void on_dial_failed(control::ClusterDialer& dialer, const Error&) override {
      // Without the hurry the waits double, to a second.
      if (++failed < 50) was_away = dialer.hurry();
    }
    int failed = 0;
    int reached = 0;
    bool was_away = false;
    bool was_away_when_lost = true;
  };
  Net net;
  const std::string address = net.listener.address().text();
  net.listener.stop();
  Hurrying events;
  control::ClusterDialer dialer(*net.node.access, {"cluster.manager", address, {}}, events);
  dialer.start();
  net.until([&] { return events.failed >= 50; });
  CHECK(events.was_away);
  control::ClusterListener later(*net.store.access, net.accepting);
  REQUIRE(later.listen("storage.listen", address).has_value());
  net.until([&] { return events.reached == 1; });
  CHECK_FALSE(events.was_away_when_lost);
}

TEST_CASE("a dialer waits for a peer that is not there yet, and comes back to one that was lost") {
  Net net;
  const std::string address = net.listener.address().text();
  net.listener.stop();
  control::ClusterDialer dialer(*net.node.access, {"cluster.manager", address, {}}, net.dialling);
  dialer.start();
  net.until([&] { return net.dialling.failed.size() >= 2; });
  CHECK(net.dialling.failed.at(0).status == Status::unreachable);
  control::ClusterListener later(*net.store.access, net.accepting);
  REQUIRE(later.listen("manager.listen", address).has_value());
  net.until([&] { return net.dialling.arrived.size() == 1; });
  const std::size_t failed = net.dialling.failed.size();
  net.dialling.arrived.clear();
  dialer.redial();
  net.until([&] { return net.dialling.arrived.size() == 1; });
  CHECK(net.dialling.failed.size() == failed);
  CHECK(net.node.counters.value("cluster.dialer.connected") == 2);
}

TEST_CASE("a name is looked up, and one that does not exist is an error that says so") {
  Net net;
  const std::string port = std::to_string(net.listener.address().port());
  control::ClusterDialer dialer(*net.node.access, {"cluster.manager", "localhost:" + port, {}},
                                net.dialling);
  dialer.start();
  net.until([&] { return net.dialling.arrived.size() == 1; });
  control::ClusterDialer lost(*net.node.access, {"cluster.manager", "nobody.invalid:1", {}},
                              net.dialling);
  net.dialling.failed.clear();
  lost.start();
  net.until([&] { return !net.dialling.failed.empty(); });
  CHECK(net.dialling.failed.at(0).context.find("cluster.manager: nobody.invalid:1: ") == 0);
  net.dialling.failed.clear();
  control::ClusterDialer wrong(*net.node.access, {"cluster.manager", "manager", {}}, net.dialling);
  wrong.start();
  net.until([&] { return !net.dialling.failed.empty(); });
  CHECK(net.dialling.failed.at(0).status == Status::invalid_argument);
}

TEST_CASE("a dialer that is stopped or gone calls nobody") {
  Net net;
  {
    control::ClusterDialer gone(*net.node.access, net.target(), net.dialling);
    gone.start();
    control::ClusterDialer stopped(*net.node.access, net.target(), net.dialling);
    stopped.start();
    stopped.stop();
    for (int i = 0; i < 5; ++i) net.io.poll_one();
  }
  net.io.restart();
  net.io.run_for(std::chrono::milliseconds(50));
  CHECK(net.dialling.arrived.empty());
  CHECK(net.dialling.failed.empty());
}

}  // namespace cluster_connect_test
