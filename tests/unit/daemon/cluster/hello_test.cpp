#include <doctest/doctest.h>

#include "hello_ends.h"

namespace hello_test {

using namespace hello_ends;

TEST_CASE("both ends learn who the other one is, what it wants, and the same keys") {
  Ends ends(data_request());
  ends.dialer_self.features = 0b1100;
  ends.run();
  REQUIRE(ends.both_done());
  const HelloResult& dialer = ends.dialer->result();
  const HelloResult& acceptor = ends.acceptor->result();
  CHECK(dialer.peer.name == "store-1");
  CHECK(dialer.peer.role == ClusterRole::storage);
  CHECK(dialer.peer.incarnation == Incarnation{2, 2});
  CHECK(acceptor.peer.name == "node-1");
  CHECK(acceptor.peer.role == ClusterRole::node);
  CHECK(acceptor.peer.incarnation == Incarnation{1, 1});
  CHECK(acceptor.request.purpose == HelloPurpose::data);
  CHECK(acceptor.request.shard == 3);
  CHECK(acceptor.request.link == 0x1122334455667788);
  CHECK(acceptor.features == 0b0100);
  CHECK(dialer.features == 0b0100);
  CHECK(dialer.version == cluster::kHelloVersionMax);
  CHECK(acceptor.version == cluster::kHelloVersionMax);
  CHECK(dialer.keys.send == acceptor.keys.receive);
  CHECK(dialer.keys.receive == acceptor.keys.send);
  CHECK(dialer.keys.send != dialer.keys.receive);
}

TEST_CASE("a hello that comes byte by byte is the same hello") {
  Ends ends;
  ends.run({}, 1);
  CHECK(ends.both_done());
}

TEST_CASE("nothing behind the hello is wanted") {
  Ends ends(data_request());
  ends.run();
  CHECK(ends.dialer->wanted() == 0);
  CHECK(ends.acceptor->wanted() == 0);
}

TEST_CASE("the same randomness gives the same bytes, other randomness other keys") {
  Ends first, again, other;
  other.acceptor_random = base::SeededRandom(13);
  for (Ends* ends : {&first, &again, &other}) ends->run();
  CHECK(first.said == again.said);
  CHECK(first.dialer->result().keys.send != other.dialer->result().keys.send);
}

TEST_CASE("without a secret at both ends the hello still checks who is who") {
  Ends ends(data_request());
  ends.dialer_secret = ClusterSecret::none();
  ends.acceptor_secret = ClusterSecret::none();
  ends.run();
  CHECK(ends.both_done());
  ends.acceptor_self.incarnation = {9, 9};
  ends.run();
  CHECK(ends.both_failed_with(HelloRefusal::target));
}

TEST_CASE("what does not fit together is refused, and both ends say the same reason") {
  const auto refusal_after = [](const std::function<void(Ends&)>& change) {
    Ends ends(data_request());
    change(ends);
    ends.run();
    CHECK(ends.dialer->state() == State::failed);
    CHECK(ends.acceptor->state() == State::failed);
    CHECK(ends.dialer->refusal() == ends.acceptor->refusal());
    CHECK(ends.dialer->explanation().find("the peer refuses: ") == 0);
    return ends.acceptor->refusal();
  };
  using R = HelloRefusal;
  CHECK(refusal_after([](Ends& e) { e.acceptor_self.cluster = "tesu"; }) == R::cluster_name);
  CHECK(refusal_after([](Ends& e) { e.acceptor_secret = secret_of('b'); }) == R::proof);
  CHECK(refusal_after([](Ends& e) { e.dialer_secret = ClusterSecret::none(); }) ==
        R::secret_missing);
  CHECK(refusal_after([](Ends& e) { e.acceptor_secret = ClusterSecret::none(); }) ==
        R::secret_missing);
  CHECK(refusal_after([](Ends& e) { e.dialer_self.incarnation = {2, 2}; }) == R::itself);
  CHECK(refusal_after([](Ends& e) { e.dialer_self.hash_seed_fingerprint = 8; }) == R::hash_seed);
  CHECK(refusal_after([](Ends& e) { e.request.target = {2, 3}; }) == R::target);
  CHECK(refusal_after([](Ends& e) { e.request.shard = 4; }) == R::shard);
  CHECK(refusal_after([](Ends& e) { e.acceptor_self.shards = 0; }) == R::shard);
  CHECK(refusal_after([](Ends& e) {
          e.has_room = [](const HelloPeer& peer, const HelloRequest& request) {
            return peer.name != "node-1" || request.shard != 3;
          };
        }) == R::no_room);
}

TEST_CASE("a connection for queue pairs is made with a shard of one incarnation") {
  HelloRequest request = data_request();
  request.purpose = HelloPurpose::queue_pair;
  Ends ends(request);
  ends.run();
  REQUIRE(ends.both_done());
  for (const HelloResult* result : {&ends.dialer->result(), &ends.acceptor->result()}) {
    CHECK(result->request.purpose == HelloPurpose::queue_pair);
    CHECK(result->request.target == Incarnation{2, 2});
    CHECK(result->request.shard == 3);
    CHECK(result->request.link == 0x1122334455667788);
  }
  ends.request.shard = 4;
  ends.run();
  CHECK(ends.both_failed_with(HelloRefusal::shard));
  ends.request.shard = 0;
  ends.run();
  CHECK(ends.both_done());
  ends.acceptor_self.shards = 0;
  ends.run();
  CHECK(ends.both_failed_with(HelloRefusal::shard));
  ends.acceptor_self.shards = 4;
  ends.acceptor_self.incarnation = {2, 3};
  ends.run();
  CHECK(ends.both_failed_with(HelloRefusal::target));
}

TEST_CASE("that a peer has ports for queue pairs is known if both say so") {
  for (const bool dialer_has : {true, false}) {
    for (const bool acceptor_has : {true, false}) {
      Ends ends(data_request());
      ends.dialer_self.features = 0b1000 | (dialer_has ? cluster::kFeatureQueuePairs : 0);
      ends.acceptor_self.features = 0b0100 | (acceptor_has ? cluster::kFeatureQueuePairs : 0);
      ends.run();
      REQUIRE(ends.both_done());
      const std::uint64_t both = dialer_has && acceptor_has ? cluster::kFeatureQueuePairs : 0;
      CHECK(ends.dialer->result().features == both);
      CHECK(ends.acceptor->result().features == both);
    }
  }
}

TEST_CASE("a hello is over when a long message has come through, each way") {
  for (const HelloPurpose purpose : {HelloPurpose::data, HelloPurpose::control}) {
    Ends ends(data_request());
    if (purpose == HelloPurpose::control) ends.request = {};
    ends.prove_path();
    ends.run([&](std::size_t number, Bytes& message) {
      if (number < 4) return;
      CHECK(message.size() == kPathMessageBytes);
      CHECK(ends.dialer->state() == State::going);
      CHECK(ends.dialer->is_proving_path());
      // The acceptor has the dialer's, and needs no more.
      CHECK(ends.acceptor->is_proving_path() == (number == 4));
    });
    CHECK(ends.said.size() == 6);
    CHECK(ends.both_done());
    CHECK(ends.dialer->wanted() == 0);
    CHECK(ends.acceptor->wanted() == 0);
    CHECK(ends.dialer->result().peer.name == "store-1");
    CHECK(ends.dialer->result().keys.send == ends.acceptor->result().keys.receive);
  }
}

TEST_CASE("no path is proved to a daemon that does not know how, nor for a queue pair") {
  for (const bool is_dialer_old : {true, false}) {
    Ends ends(data_request());
    ends.prove_path();
    HelloSelf& old = is_dialer_old ? ends.dialer_self : ends.acceptor_self;
    old.features &= ~kFeaturePathProof;
    ends.run();
    CHECK(ends.said.size() == 4);
    CHECK(ends.both_done());
  }
  HelloRequest request = data_request();
  request.purpose = HelloPurpose::queue_pair;
  Ends ends(request);
  ends.prove_path();
  ends.run();
  CHECK(ends.said.size() == 4);
  CHECK(ends.both_done());
}

TEST_CASE("versions: the highest that both speak, or a refusal that names the ranges") {
  Ends ends;
  ends.dialer_self.version_min = 2;
  ends.dialer_self.version_max = 5;
  ends.acceptor_self.version_max = 3;
  ends.run();
  REQUIRE(ends.both_done());
  CHECK(ends.dialer->result().version == 3);
  CHECK(ends.acceptor->result().version == 3);
  ends.acceptor_self.version_min = 6;
  ends.acceptor_self.version_max = 8;
  ends.run();
  CHECK(ends.both_failed_with(HelloRefusal::version));
  CHECK(ends.dialer->explanation().find("5") == std::string::npos);
  CHECK(ends.dialer->peer_claim().find("the peer speaks 6 to 8, this daemon 2 to 5") !=
        std::string::npos);
  CHECK(ends.acceptor->peer_claim().find("the peer speaks 2 to 5, this daemon 6 to 8") !=
        std::string::npos);
}

TEST_CASE("a daemon of the previous release, which speaks 5 only, is understood both ways") {
  for (const bool dialer_is_old : {true, false}) {
    Ends ends;
    (dialer_is_old ? ends.dialer_self : ends.acceptor_self).version_max = 5;
    ends.run();
    REQUIRE(ends.both_done());
    CHECK(ends.dialer->result().version == 5);
    CHECK(ends.acceptor->result().version == 5);
  }
  CHECK(kHelloVersionMin == 5);
  CHECK(kHelloVersionMax > 5);
}

TEST_CASE("names are plain and fit") {
  CHECK(is_cluster_name("rack-1_a.B9"));
  CHECK(is_cluster_name(std::string(64, 'x')));
  for (const std::string& bad : {std::string(), std::string(65, 'x'), std::string("a b"),
                                 std::string("a\0b", 3), std::string("a\n"), std::string("ä")}) {
    CHECK_FALSE(is_cluster_name(bad));
  }
  const std::string full(64, 'x');
  CHECK(name_of(wire_name(full)) == full);
  WireName hidden = wire_name("abc");
  hidden[10] = 'x';
  CHECK_FALSE(name_of(hidden).has_value());
  CHECK_FALSE(name_of(WireName{}).has_value());
}

}  // namespace hello_test
