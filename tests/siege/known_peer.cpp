#include "tests/siege/known_peer.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "daemon/base/random.h"

namespace simm::siege {
namespace {

constexpr int kPatienceMs = 60'000;

cluster::DaemonIdentity node_of(const std::string& name) {
  base::SystemRandom random;
  return {{random.next(), random.next()}, cluster::ClusterRole::node, name};
}

cluster::HelloSelf self_of(const cluster::ClusterSecret& secret,
                           const cluster::DaemonIdentity& who) {
  cluster::HelloSelf self;
  self.cluster = "simm";
  self.name = who.name;
  self.incarnation = who.incarnation;
  self.role = who.role;
  self.features = cluster::kFeaturePathProof;
  self.hash_seed_fingerprint = secret.fingerprint_of(secret.hash_seed_of(self.cluster));
  return self;
}

bool wait_for(int socket, short what, int patience_ms = kPatienceMs) {
  pollfd one{socket, what, 0};
  return ::poll(&one, 1, patience_ms) == 1;
}

// In a flood the kernel loses connections, and tries each for two minutes: longer than who came has
// patience.
constexpr int kConnectS = 2;

// 0: none. It holds for connect() as well.
void set_send_limit(int socket, int seconds) {
  const timeval limit{seconds, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

ipc::UniqueFd connect_to(const std::string& address, const std::string& source) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
  if (::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1) return {};
  ipc::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!source.empty()) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    if (::inet_pton(AF_INET, source.c_str(), &from.sin_addr) != 1) return {};
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) != 0) return {};
  }
  set_send_limit(socket.get(), kConnectS);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return {};
  set_send_limit(socket.get(), 0);
  return socket;
}

KnownPeer::KnownPeer(const KnownDaemon& daemon, const cluster::DaemonIdentity& who,
                     const cluster::HelloRequest& request)
    : socket_(connect_to(daemon.address)) {
  if (socket_.valid()) greet(daemon, who, request);
}

KnownPeer::KnownPeer(const KnownDaemon& daemon, const std::string& name, std::uint64_t link)
    : KnownPeer(daemon, node_of(name), {cluster::HelloPurpose::data, daemon.incarnation, 0, link}) {
}

std::vector<std::byte> KnownPeer::first_words(const KnownDaemon& daemon) {
  const auto secret = cluster::ClusterSecret::load(daemon.secret_file);
  REQUIRE(secret.has_value());
  const cluster::HelloSelf self = self_of(*secret, node_of("recorded"));
  base::SystemRandom random;
  const cluster::HelloDialer hello(*secret, self,
                                   {cluster::HelloPurpose::data, daemon.incarnation, 0, 1}, random);
  return {hello.outgoing().begin(), hello.outgoing().end()};
}

void KnownPeer::greet(const KnownDaemon& daemon, const cluster::DaemonIdentity& who,
                      const cluster::HelloRequest& request) {
  const auto secret = cluster::ClusterSecret::load(daemon.secret_file);
  REQUIRE(secret.has_value());
  const cluster::HelloSelf self = self_of(*secret, who);
  base::SystemRandom random;
  cluster::HelloDialer hello(*secret, self, request, random);
  using State = cluster::HelloMachine::State;
  std::array<std::byte, 4096> buffer;
  while (hello.state() == State::going || !hello.outgoing().empty()) {
    if (!hello.outgoing().empty()) {
      const ssize_t sent =
          ::send(socket_.get(), hello.outgoing().data(), hello.outgoing().size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      hello.sent(static_cast<std::size_t>(sent));
      continue;
    }
    if (!wait_for(socket_.get(), POLLIN, daemon.hello_ms)) return;
    const ssize_t got =
        ::recv(socket_.get(), buffer.data(), std::min(buffer.size(), hello.wanted()), 0);
    if (got <= 0) return;
    hello.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
  is_welcome_ = hello.state() == State::done;
  refusal_ = hello.refusal();
  if (is_welcome_) send_key_ = hello.result().keys.send;
}

bool KnownPeer::say(const std::vector<std::byte>& bytes) {
  std::size_t said = 0;
  while (said < bytes.size()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data() + said, bytes.size() - said, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    said += static_cast<std::size_t>(sent);
  }
  return true;
}

bool KnownPeer::hears() const {
  return wait_for(socket_.get(), POLLIN);
}

std::size_t KnownPeer::say_garbage(std::size_t bytes) {
  const std::vector<std::byte> garbage(bytes, std::byte{0x5A});
  const ssize_t sent =
      ::send(socket_.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

bool KnownPeer::is_over() const {
  std::byte one{};
  return ::recv(socket_.get(), &one, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace simm::siege
