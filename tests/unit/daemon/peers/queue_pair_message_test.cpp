// What two daemons tell each other to connect queue pairs.
#include "daemon/peers/queue_pair_message.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace queue_pair_message_test {

using namespace simm::control;
using simm::transport::QueuePairAddress;

QueuePairAddress address() {
  QueuePairAddress made;
  for (std::size_t i = 0; i < made.gid.size(); ++i) made.gid[i] = static_cast<std::uint8_t>(i + 1);
  made.number = 0xabcdef;
  made.first_packet = 0xfedcba;
  made.lid = 0x1234;
  made.mtu_bytes = 4096;
  made.reads_in = 16;
  made.is_ethernet = true;
  return made;
}

bool offered_as(const QueuePairAddress& told, std::optional<std::uint8_t> place) {
  const auto offer = decode_offer(encode_offer({told, place}));
  return offer && offer->address == told && offer->place == place;
}

TEST_CASE("the place of a rail comes out as it went in") {
  for (unsigned place = 0; place < kRailPlaces; ++place) {
    CHECK(offered_as(address(), static_cast<std::uint8_t>(place)));
  }
}

TEST_CASE("an offer and an answer come out as they went in") {
  QueuePairAddress told = address();
  for (const bool is_ethernet : {true, false}) {
    told.is_ethernet = is_ethernet;
    CHECK(offered_as(told, std::nullopt));
    const auto answer = decode_answer(encode_answer({QueuePairRefusal::none, told}));
    REQUIRE(answer.has_value());
    CHECK(answer->refusal == QueuePairRefusal::none);
    CHECK(answer->address == told);
  }
  told = {};
  told.number = 1;  // all else zero
  CHECK(offered_as(told, std::nullopt));
}

TEST_CASE("a refusal says its reason and no address") {
  std::set<std::string_view> texts;
  for (std::uint16_t number = 1; number <= kQueuePairRefusalMax; ++number) {
    const auto refusal = static_cast<QueuePairRefusal>(number);
    const auto answer = decode_answer(encode_answer({refusal, address()}));
    REQUIRE(answer.has_value());
    CHECK(answer->refusal == refusal);
    CHECK(answer->address == QueuePairAddress{});
    texts.insert(refusal_text(refusal));
  }
  CHECK(texts.size() == kQueuePairRefusalMax);
  CHECK(texts.count("") == 0);
  CHECK(texts.count("unknown") == 0);
}

TEST_CASE("one message is never taken for the other") {
  CHECK_FALSE(decode_answer(encode_offer({address(), {}})).has_value());
  CHECK_FALSE(decode_offer(encode_answer({QueuePairRefusal::none, address()})).has_value());
  CHECK_FALSE(decode_offer(encode_answer({QueuePairRefusal::no_rail, {}})).has_value());
}

TEST_CASE("only the one size is a message") {
  const auto offer = encode_offer({address(), {}});
  const auto answer = encode_answer({QueuePairRefusal::none, address()});
  std::vector<std::byte> longer(offer.begin(), offer.end());
  longer.push_back(std::byte{0});
  CHECK_FALSE(decode_offer(longer).has_value());
  for (std::size_t bytes = 0; bytes < offer.size(); ++bytes) {
    CHECK_FALSE(decode_offer(std::span(offer).first(bytes)).has_value());
    CHECK_FALSE(decode_answer(std::span(answer).first(bytes)).has_value());
  }
}

// Every other value of every byte is either refused or another address: nothing is overlooked.
TEST_CASE("each wrong byte is seen") {
  const auto is_address = [](std::size_t at) { return at >= 8 && at < 38; };
  const auto is_said = [&](std::size_t at) { return is_address(at) || at == 38; };  // and a place
  const auto offer = encode_offer({address(), {}});
  const auto answer = encode_answer({QueuePairRefusal::none, address()});
  for (std::size_t at = 0; at < offer.size(); ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      auto wrong_offer = offer;
      auto wrong_answer = answer;
      wrong_offer[at] ^= std::byte(static_cast<unsigned char>(flip));
      wrong_answer[at] ^= std::byte(static_cast<unsigned char>(flip));
      CAPTURE(at);
      CAPTURE(flip);
      const auto offered = decode_offer(wrong_offer);
      const auto answered = decode_answer(wrong_answer);
      const bool is_same = offered && offered->address == address() && !offered->place;
      REQUIRE_FALSE((offered && (!is_said(at) || is_same)));
      REQUIRE_FALSE((answered && (!is_address(at) || answered->address == address())));
    }
  }
}

TEST_CASE("numbers beyond 24 bits, none at all, and a kind of link that is none are refused") {
  const auto with = [](std::size_t at, std::vector<int> bytes) {
    auto message = encode_offer({address(), {}});
    for (const int byte : bytes) message[at++] = std::byte(static_cast<unsigned char>(byte));
    return decode_offer(message).has_value();
  };
  CHECK(with(24, {0xff, 0xff, 0xff, 0}));
  CHECK_FALSE(with(24, {0, 0, 0, 1}));
  CHECK_FALSE(with(24, {0, 0, 0, 0}));
  CHECK(with(28, {0, 0, 0, 0}));
  CHECK_FALSE(with(28, {0, 0, 0, 1}));
  CHECK(with(37, {0}));
  CHECK_FALSE(with(37, {2}));
}

TEST_CASE("a refusal that nobody knows, or that says more than its reason, is no answer") {
  auto message = encode_answer({QueuePairRefusal::failed, {}});
  REQUIRE(decode_answer(message).has_value());
  for (std::size_t at = 8; at < message.size(); ++at) {
    auto wrong = message;
    wrong[at] = std::byte{1};
    CAPTURE(at);
    CHECK_FALSE(decode_answer(wrong).has_value());
  }
  message[6] = static_cast<std::byte>(kQueuePairRefusalMax + 1);
  CHECK_FALSE(decode_answer(message).has_value());
}

}  // namespace queue_pair_message_test
