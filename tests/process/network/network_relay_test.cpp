// The relay that the tests of this directory put between daemons does what it promises.
#include "tests/support/network_relay.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

namespace network_relay_test {

using simm::ipc::UniqueFd;
using simm::test_support::NetworkRelay;
using simm::test_support::RelayTrouble;
using simm::test_support::RelayWay;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

UniqueFd dial(const std::string& address) {
  const sockaddr_in to = loopback(std::atoi(address.c_str() + address.rfind(':') + 1));
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  return socket;
}

struct Server {
  Server() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof at;
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), bytes) == 0);
    REQUIRE(::listen(listener.get(), 8) == 0);
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &bytes) == 0);
    address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  UniqueFd accept() const { return UniqueFd(::accept(listener.get(), nullptr, nullptr)); }
  UniqueFd listener;
  std::string address;
};

// A connection through a relay.
struct Line {
  Line() : Line(1) {}
  explicit Line(std::uint64_t seed) : relay(server.address, seed) { redial(); }
  void redial() {
    caller = dial(relay.address());
    called = server.accept();
  }
  Server server;
  NetworkRelay relay;
  UniqueFd caller;
  UniqueFd called;
};

void say(const UniqueFd& socket, const std::string& text) {
  REQUIRE(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
}

// What comes until there are `bytes` of it, the stream has ended ("|") or is reset ("!"), or
// nothing comes for a while.
std::string hear(const UniqueFd& socket, std::size_t bytes, int patience_ms = 5000) {
  std::string text;
  while (text.size() < bytes) {
    pollfd polled{socket.get(), POLLIN, 0};
    if (::poll(&polled, 1, patience_ms) == 0) return text;
    char buffer[65536];
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return text + (got == 0 ? "|" : "!");
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

constexpr int kSilenceMs = 60;  // how long nothing has to come

TEST_CASE("relay: what one side says and that it ends reaches the other side") {
  Line line;
  const std::string question(300'000, 'q');
  say(line.caller, question);
  CHECK(hear(line.called, question.size()) == question);
  say(line.called, "answer");
  CHECK(hear(line.caller, 6) == "answer");
  CHECK(line.relay.connections() == 1);
  say(line.caller, "last");
  line.caller.reset();
  CHECK(hear(line.called, 5) == "last|");
  CHECK(line.relay.bytes(RelayWay::to_server) == question.size() + 4);
  CHECK(line.relay.bytes(RelayWay::to_caller) == 6);
}

TEST_CASE("relay: late and slowly") {
  Line line;
  RelayTrouble trouble;
  trouble.delay = milliseconds(50);
  line.relay.make(RelayWay::to_server, trouble);
  auto since = Clock::now();
  say(line.caller, "late");
  CHECK(hear(line.called, 4) == "late");
  CHECK(Clock::now() - since >= milliseconds(50));
  trouble = {};
  trouble.bytes_per_s = 1'000'000;
  line.relay.make(RelayWay::to_caller, trouble);
  since = Clock::now();
  const std::string text(100'000, 's');
  say(line.called, text);
  CHECK(hear(line.caller, text.size()) == text);
  CHECK(Clock::now() - since >= milliseconds(100));
}

TEST_CASE("relay: what is held back comes in the end") {
  Line line;
  RelayTrouble trouble;
  trouble.holds = true;
  line.relay.make_both(trouble);
  say(line.caller, "to the server");
  say(line.called, "to the caller");
  line.called.reset();
  CHECK(hear(line.caller, 1, kSilenceMs).empty());
  line.relay.mend();
  CHECK(hear(line.caller, 14) == "to the caller|");
}

TEST_CASE("relay: what is kept of a connection comes in the end, and new ones are not touched") {
  Line line;
  say(line.caller, "before");
  CHECK(hear(line.called, 6) == "before");
  line.relay.keep(RelayWay::to_server);
  say(line.caller, "kept");
  line.caller.reset();
  while (line.relay.kept_bytes() < 4) ::poll(nullptr, 0, 1);
  const UniqueFd old = std::move(line.called);
  line.redial();
  say(line.caller, "new");
  CHECK(hear(line.called, 3) == "new");
  CHECK(hear(old, 1, kSilenceMs).empty());
  line.relay.mend();
  CHECK(hear(old, 5, kSilenceMs) == "kept");
  while (line.relay.kept_bytes() != 0) ::poll(nullptr, 0, 1);
}

TEST_CASE("relay: what is swallowed never comes, and nothing after it") {
  Line line;
  RelayTrouble trouble;
  trouble.swallows = true;
  line.relay.make(RelayWay::to_server, trouble);
  say(line.caller, "lost");
  CHECK(hear(line.called, 1, kSilenceMs).empty());
  say(line.called, "the other way");
  CHECK(hear(line.caller, 13) == "the other way");
  line.relay.mend();
  say(line.caller, "lost too");
  CHECK(hear(line.called, 1, kSilenceMs).empty());
  line.redial();
  say(line.caller, "found");
  CHECK(hear(line.called, 5) == "found");
}

TEST_CASE("relay: half-open connections, and servers that are not there") {
  Line line;
  line.relay.conceal_ends(true);
  line.called.reset();
  say(line.caller, "anybody?");
  CHECK(hear(line.caller, 1, kSilenceMs).empty());
  line.relay.mend();
  CHECK(hear(line.caller, 1) == "!");
  line.server.listener.reset();
  const UniqueFd refused = dial(line.relay.address());
  CHECK(hear(refused, 1) == "!");
  line.relay.conceal_ends(true);
  const UniqueFd ignored = dial(line.relay.address());
  CHECK(hear(ignored, 1, kSilenceMs).empty());
}

TEST_CASE("relay: cut, mended and reset") {
  Line line;
  line.relay.cut();
  CHECK(line.relay.connections() == 0);
  CHECK(hear(line.caller, 1) == "!");
  CHECK(hear(line.called, 1) == "!");
  const UniqueFd refused = dial(line.relay.address());
  CHECK(hear(refused, 1) == "!");
  line.relay.mend();
  line.redial();
  // The one that was refused while the line was cut has left nothing behind.
  while (hear(line.called, 1, kSilenceMs) == "!") line.called = line.server.accept();
  say(line.caller, "back");
  CHECK(hear(line.called, 4) == "back");
  line.relay.reset();
  CHECK(hear(line.caller, 1) == "!");
  line.redial();
  say(line.caller, "again");
  CHECK(hear(line.called, 5) == "again");
}

TEST_CASE("relay: damage") {
  const std::string sent(2'000, 'x');
  int changed = 0;
  int shorter = 0;
  int ended = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Line line(seed);
    RelayTrouble trouble;
    trouble.damage_every_bytes = 1'000;
    line.relay.make(RelayWay::to_server, trouble);
    say(line.caller, sent);
    line.caller.reset();
    const std::string heard = hear(line.called, sent.size() + 1);
    CHECK((heard != sent + "|") == (line.relay.damages() > 0));
    ended += heard.find_first_not_of("x|!") == std::string::npos && heard.size() < 1'900 ? 1 : 0;
    shorter += heard.size() >= 1'900 && heard.size() <= 2'000 ? 1 : 0;
    changed += heard.find_first_not_of("x|!") != std::string::npos ? 1 : 0;
  }
  CHECK(changed > 0);
  CHECK(shorter > 0);
  CHECK(ended > 0);
}

}  // namespace network_relay_test
