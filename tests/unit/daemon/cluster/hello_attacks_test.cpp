// The hello against somebody who can read, change, drop, repeat and invent bytes, and does not know
// the secret.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "hello_ends.h"

namespace hello_attacks_test {

using namespace hello_ends;

constexpr std::size_t kMessages = 4;

bool receiver_is_done(const Ends& ends, std::size_t message) {
  const bool to_acceptor = message % 2 == 0;
  return (to_acceptor ? ends.acceptor->state() : ends.dialer->state()) == State::done;
}

bool holds(const Bytes& haystack, std::span<const std::byte> needle) {
  return std::search(haystack.begin(), haystack.end(), needle.begin(), needle.end()) !=
         haystack.end();
}

TEST_CASE("a hello with any bit changed is never completed by whoever got it") {
  for (const bool is_data : {false, true}) {
    Ends ends(is_data ? data_request() : HelloRequest{});
    ends.run();
    REQUIRE(ends.both_done());
    REQUIRE(ends.said.size() == kMessages);
    const std::vector<Bytes> honest = ends.said;
    for (std::size_t message = 0; message < kMessages; ++message) {
      for (std::size_t bit = 0; bit < honest[message].size() * 8; ++bit) {
        ends.run([&](std::size_t number, Bytes& bytes) {
          if (number == message) bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        });
        CAPTURE(message);
        CAPTURE(bit);
        CHECK_FALSE(receiver_is_done(ends, message));
        // A changed hello may not even look changed to the acceptor; the proof shows it.
        CHECK_FALSE(ends.both_done());
      }
    }
  }
}

TEST_CASE("a hello that stops at any byte is not completed, and more of it is wanted") {
  Ends ends(data_request());
  ends.run();
  const std::vector<Bytes> honest = ends.said;
  for (std::size_t message = 0; message < kMessages; ++message) {
    for (std::size_t length = 0; length < honest[message].size(); ++length) {
      ends.run([&](std::size_t number, Bytes& bytes) {
        if (number == message) bytes.resize(length);
      });
      CHECK_FALSE(receiver_is_done(ends, message));
      const HelloMachine& receiver =
          message % 2 == 0 ? static_cast<const HelloMachine&>(*ends.acceptor) : *ends.dialer;
      CHECK(receiver.state() == State::going);
      CHECK(receiver.wanted() > 0);
    }
  }
}

TEST_CASE("a long message that is changed or cut short proves no path") {
  Ends ends(data_request());
  ends.prove_path();
  const auto run = [&](std::size_t message, const Tamper& tamper) {
    ends.run([&](std::size_t number, Bytes& bytes) {
      if (number == message) tamper(number, bytes);
    });
    CAPTURE(message);
    CHECK_FALSE(receiver_is_done(ends, message));
    CHECK_FALSE(ends.both_done());
  };
  for (const std::size_t message : {4u, 5u}) {
    for (std::size_t byte = 0; byte < kPathMessageBytes; byte += byte < 32 ? 1 : 97) {
      run(message, [&](std::size_t, Bytes& bytes) { bytes[byte] ^= std::byte{1}; });
      run(message, [&](std::size_t, Bytes& bytes) { bytes.resize(byte); });
    }
    run(message, [&](std::size_t, Bytes& bytes) { bytes.back() = std::byte{1}; });
    run(message, [&](std::size_t, Bytes& bytes) { bytes.pop_back(); });
  }
}

TEST_CASE("a recorded hello opens nothing") {
  Ends ends(data_request());
  ends.run();
  const std::vector<Bytes> recorded = ends.said;
  // Against the acceptor: it has drawn another nonce since.
  HelloAcceptor acceptor(ends.acceptor_secret, ends.acceptor_self, ends.acceptor_random);
  Ends::feed(acceptor, recorded[0]);
  CHECK(acceptor.state() == State::going);
  Ends::feed(acceptor, recorded[2]);
  CHECK(acceptor.state() == State::failed);
  CHECK(acceptor.refusal() == HelloRefusal::proof);
  // Against the dialer.
  HelloDialer dialer(ends.dialer_secret, ends.dialer_self, ends.request, ends.dialer_random);
  Ends::feed(dialer, recorded[1]);
  CHECK(dialer.state() == State::going);
  Ends::feed(dialer, recorded[3]);
  CHECK(dialer.state() == State::failed);
  CHECK(dialer.refusal() == HelloRefusal::impostor);
}

TEST_CASE("a hello that is reflected opens nothing") {
  Ends ends;
  // Back at the dialer itself.
  HelloDialer dialer(ends.dialer_secret, ends.dialer_self, ends.request, ends.dialer_random);
  const Bytes hello = Ends::take(dialer);
  Ends::feed(dialer, hello);
  CHECK(dialer.refusal() == HelloRefusal::garbage);
  // At the port that the dialer's own daemon listens on.
  ends.acceptor_self = ends.dialer_self;
  ends.run();
  CHECK(ends.both_failed_with(HelloRefusal::itself));
}

TEST_CASE("the proof of one end is not the proof of the other, nor a key") {
  Ends ends;
  HelloTranscript seen;
  seen.hello = make_hello_message<HelloMessage>(HelloType::hello);
  const ClusterSecret& secret = ends.dialer_secret;
  const std::array<Mac, 4> all = {seen.dialer_mac(secret), seen.acceptor_mac(secret),
                                  seen.key_from_dialer(secret), seen.key_from_acceptor(secret)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(all[i] != all[j]);
  }
  // An attacker who sends the dialer's own MAC back as the verdict's.
  HelloDialer dialer(secret, ends.dialer_self, ends.request, ends.dialer_random);
  (void)Ends::take(dialer);
  auto challenge = make_hello_message<ChallengeMessage>(HelloType::challenge);
  challenge.version = cluster::kHelloVersionMax;
  Ends::feed(dialer, std::as_bytes(std::span(&challenge, 1)));
  const auto proof = hello_message_from<ProofMessage>(Ends::take(dialer));
  auto verdict = make_hello_message<VerdictMessage>(HelloType::verdict);
  verdict.role = 2;
  verdict.incarnation = {2, 2};
  verdict.name = wire_name("store-1");
  verdict.mac = proof.mac;
  Ends::feed(dialer, std::as_bytes(std::span(&verdict, 1)));
  CHECK(dialer.refusal() == HelloRefusal::impostor);
}

TEST_CASE("an acceptor that skips the challenge or refuses what no acceptor refuses is garbage") {
  Ends ends;
  const auto after = [&](const auto& message) {
    HelloDialer dialer(ends.dialer_secret, ends.dialer_self, ends.request, ends.dialer_random);
    Ends::feed(dialer, std::as_bytes(std::span(&message, 1)));
    CHECK(dialer.state() == State::failed);
    return dialer.refusal();
  };
  CHECK(after(make_hello_message<VerdictMessage>(HelloType::verdict)) == HelloRefusal::garbage);
  auto refusal = make_hello_message<RefusalMessage>(HelloType::refusal);
  for (const std::uint32_t number : {0u, 1u, 2u, 12u, ~0u}) {
    refusal.refusal = number;
    CHECK(after(refusal) == HelloRefusal::garbage);
  }
  refusal.refusal = static_cast<std::uint32_t>(HelloRefusal::proof);
  CHECK(after(refusal) == HelloRefusal::proof);
}

TEST_CASE("reserved fields that are not zero are garbage at once, not only when the proof fails") {
  Ends ends(data_request());
  ends.run();
  const auto acceptor_after = [&](const std::function<void(HelloMessage&)>& change) {
    auto hello = hello_message_from<HelloMessage>(ends.said.at(0));
    change(hello);
    HelloAcceptor acceptor(ends.acceptor_secret, ends.acceptor_self, ends.acceptor_random);
    Ends::feed(acceptor, std::as_bytes(std::span(&hello, 1)));
    CHECK(Ends::take(acceptor).empty() == (acceptor.state() == State::failed));
    return acceptor.refusal();
  };
  using R = HelloRefusal;
  CHECK(acceptor_after([](HelloMessage&) {}) == R::none);
  CHECK(acceptor_after([](HelloMessage& m) { m.header.reserved = 1; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.reserved0 = 1; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.reserved1 = 1; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.reserved2 = 1; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.has_secret = 2; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.role = 4; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.purpose = 0; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.target = {}; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.incarnation = {}; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.purpose = 1; }) == R::garbage);  // with a shard
  CHECK(acceptor_after([](HelloMessage& m) { m.purpose = 3; }) == R::none);
  CHECK(acceptor_after([](HelloMessage& m) { m.purpose = 4; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) {
          m.purpose = 3;
          m.target = {};
        }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.version_min = m.version_max + 1; }) == R::garbage);
  CHECK(acceptor_after([](HelloMessage& m) { m.name[0] = '\n'; }) == R::garbage);
  auto challenge = hello_message_from<ChallengeMessage>(ends.said.at(1));
  challenge.reserved0 = 1;
  HelloDialer dialer(ends.dialer_secret, ends.dialer_self, ends.request, ends.dialer_random);
  Ends::feed(dialer, std::as_bytes(std::span(&challenge, 1)));
  CHECK(dialer.refusal() == R::garbage);
}

TEST_CASE("one who did not prove itself learns nothing about the daemon") {
  Ends ends(data_request());
  ends.dialer_secret = secret_of('b');
  ends.run();
  CHECK(ends.acceptor->refusal() == HelloRefusal::proof);
  const std::string& name = ends.acceptor_self.name;
  const auto incarnation = wire_incarnation(ends.acceptor_self.incarnation);
  for (const Bytes& message : {ends.said.at(1), ends.said.at(3)}) {
    CHECK_FALSE(holds(message, std::as_bytes(std::span(name))));
    CHECK_FALSE(holds(message, std::as_bytes(std::span(&incarnation, 1))));
  }
}

TEST_CASE("random bytes are garbage") {
  const char* given = std::getenv("SIMM_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  INFO("repeat: SIMM_SEED=" << seed << " unit_cluster -tc='random bytes are garbage'");
  base::SeededRandom random(seed);
  Ends ends;
  for (int round = 0; round < 2000; ++round) {
    HelloDialer dialer(ends.dialer_secret, ends.dialer_self, ends.request, random);
    HelloAcceptor acceptor(ends.acceptor_secret, ends.acceptor_self, random);
    for (HelloMachine* end :
         {static_cast<HelloMachine*>(&dialer), static_cast<HelloMachine*>(&acceptor)}) {
      Bytes bytes(1 + random.below(400));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
      Ends::feed(*end, bytes, 1 + random.below(50));
      CHECK(end->state() == (bytes.size() < sizeof(HelloHeader) ? State::going : State::failed));
    }
  }
}

}  // namespace hello_attacks_test
