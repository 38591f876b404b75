// Two ends of a hello in memory, and everything that went between them.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/hello/hello_acceptor.h"
#include "daemon/cluster/hello/hello_dialer.h"

namespace hello_ends {

using namespace simm;
using namespace simm::cluster;
using Bytes = std::vector<std::byte>;
using State = HelloMachine::State;

inline ClusterSecret secret_of(char letter) {
  auto secret = ClusterSecret::from_text(std::string(40, letter) + "0123456789");
  REQUIRE(secret.has_value());
  return std::move(*secret);
}

inline HelloSelf self_of(std::string name, std::uint64_t number, ClusterRole role,
                         std::uint16_t shards = 0) {
  HelloSelf self;
  self.cluster = "test";
  self.name = std::move(name);
  self.incarnation = {number, number};
  self.role = role;
  self.shards = shards;
  self.features = 0b0110;
  self.hash_seed_fingerprint = 7;
  return self;
}

// What one end says at one time. Number 0: Hello, 1: Challenge, 2: Proof, 3: Verdict, 4 and 5:
// Path.
using Tamper = std::function<void(std::size_t number, Bytes& message)>;

struct Ends {
  explicit Ends(const HelloRequest& wanted = {}) : request(wanted) {}

  // Both ends, until neither has anything to say. `piece`: bytes that are fed at once.
  void run(const Tamper& tamper = {}, std::size_t piece = 1000) {
    dialer.emplace(dialer_secret, dialer_self, request, dialer_random);
    acceptor.emplace(acceptor_secret, acceptor_self, acceptor_random, has_room);
    said.clear();
    for (bool to_acceptor = true; pass(to_acceptor, tamper, piece);) to_acceptor = !to_acceptor;
  }
  void prove_path() {
    dialer_self.features |= kFeaturePathProof;
    acceptor_self.features |= kFeaturePathProof;
  }
  [[nodiscard]] bool both_done() const {
    return dialer->state() == State::done && acceptor->state() == State::done;
  }
  [[nodiscard]] bool both_failed_with(HelloRefusal refusal) const {
    return dialer->state() == State::failed && acceptor->state() == State::failed &&
           dialer->refusal() == refusal && acceptor->refusal() == refusal;
  }

  static void feed(HelloMachine& end, std::span<const std::byte> bytes, std::size_t piece = 1000) {
    while (!bytes.empty() && end.wanted() > 0) {
      const std::size_t now = std::min({piece, bytes.size(), end.wanted()});
      end.feed(bytes.first(now));
      bytes = bytes.subspan(now);
    }
  }
  static Bytes take(HelloMachine& end) {
    Bytes bytes(end.outgoing().begin(), end.outgoing().end());
    end.sent(bytes.size());
    return bytes;
  }

  ClusterSecret dialer_secret = secret_of('a');
  ClusterSecret acceptor_secret = secret_of('a');
  HelloSelf dialer_self = self_of("node-1", 1, ClusterRole::node);
  HelloSelf acceptor_self = self_of("store-1", 2, ClusterRole::storage, 4);
  HelloRequest request;
  HelloAcceptor::HasRoom has_room;
  base::SeededRandom dialer_random{11};
  base::SeededRandom acceptor_random{12};
  std::optional<HelloDialer> dialer;
  std::optional<HelloAcceptor> acceptor;
  std::vector<Bytes> said;

private:
  bool pass(bool to_acceptor, const Tamper& tamper, std::size_t piece) {
    HelloMachine& from = to_acceptor ? static_cast<HelloMachine&>(*dialer) : *acceptor;
    HelloMachine& to = to_acceptor ? static_cast<HelloMachine&>(*acceptor) : *dialer;
    Bytes bytes = take(from);
    if (bytes.empty()) return false;
    said.push_back(bytes);
    if (tamper) tamper(said.size() - 1, bytes);
    feed(to, bytes, piece);
    return true;
  }
};

inline HelloRequest data_request() {
  HelloRequest request;
  request.purpose = HelloPurpose::data;
  request.target = {2, 2};
  request.shard = 3;
  request.link = 0x1122334455667788;
  return request;
}

}  // namespace hello_ends
