#include "daemon/peers/cluster_channel.h"

#include <doctest/doctest.h>

#include <optional>

#include "tests/unit/daemon/peers/cluster_net.h"

namespace cluster_channel_test {

using namespace cluster_net;
using control::ClusterChannel;

struct Talking : control::ClusterChannelEvents {
  void on_message(ClusterChannel& channel, std::span<const std::byte> payload) override {
    messages.emplace_back(payload.begin(), payload.end());
    if (then) then(channel);
  }
  void on_closed(ClusterChannel& channel, const Error& cause) override {
    closed.push_back(cause);
    if (then) then(channel);
  }
  std::vector<Bytes> messages;
  std::vector<Error> closed;
  std::function<void(ClusterChannel&)> then;
};

struct Talk {
  Talk() {
    auto [mine, theirs] = net.connect();
    left.emplace(*net.node.access, std::move(mine.socket), mine.result, left_events);
    right.emplace(*net.store.access, std::move(theirs.socket), theirs.result, right_events);
  }
  Net net;
  Talking left_events, right_events;
  std::optional<ClusterChannel> left, right;
};

// One end is a channel, the other one is whatever the test makes of the raw socket.
struct HalfTalk {
  HalfTalk() {
    auto [mine, theirs] = net.connect();
    keys = mine.result.keys;
    raw.emplace(std::move(mine.socket));
    channel.emplace(*net.store.access, std::move(theirs.socket), theirs.result, events);
  }
  Net net;
  Talking events;
  cluster::FrameKeys keys;
  std::optional<RawPeer> raw;
  std::optional<ClusterChannel> channel;
};

TEST_CASE("messages go both ways, in order, of every size up to a frame's") {
  Talk talk;
  std::vector<Bytes> sent;
  for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{100000},
                                 cluster::kFramePayloadBytesMax, std::size_t{7}}) {
    sent.emplace_back(size, std::byte{static_cast<unsigned char>(size % 251)});
    CHECK(talk.left->send(sent.back()) == Status::ok);
    CHECK(talk.right->send(sent.back()) == Status::ok);
  }
  talk.net.until([&] {
    return talk.left_events.messages.size() == sent.size() &&
           talk.right_events.messages.size() == sent.size();
  });
  CHECK(talk.left_events.messages == sent);
  CHECK(talk.right_events.messages == sent);
  CHECK(talk.left->peer().name == "store-1");
  CHECK(talk.right->peer().name == "node-1");
  CHECK(talk.left->queued_bytes() == 0);
  CHECK(talk.left->send({}) == Status::invalid_argument);
  CHECK(talk.left->send(Bytes(cluster::kFramePayloadBytesMax + 1)) == Status::invalid_argument);
  CHECK(talk.left->send(Bytes(control::kChannelQueueBytesMax)) == Status::invalid_argument);
}

TEST_CASE("frames that come together, or in pieces, are the messages that were sent") {
  HalfTalk talk;
  cluster::FrameSealer sealer(talk.keys.send);
  const std::vector<Bytes> sent = {text("one"), text("two"), text("three")};
  Bytes wire;
  for (const Bytes& message : sent) {
    const Bytes frame = sealer.seal(message).value();
    wire.insert(wire.end(), frame.begin(), frame.end());
  }
  // All but the last byte come in one read.
  talk.raw->send(std::span(wire).first(wire.size() - 1));
  talk.net.until([&] { return talk.events.messages.size() == 2; });
  talk.raw->send(std::span(wire).last(1));
  talk.net.until([&] { return talk.events.messages.size() == 3; });
  CHECK(talk.events.messages == sent);
}

TEST_CASE("the queue to a peer that does not read is bounded, and nothing in it is lost") {
  HalfTalk talk;
  const Bytes message(cluster::kFramePayloadBytesMax, std::byte{5});
  std::size_t accepted = 0;
  Status status = Status::ok;
  while (accepted < 1000 && (status = talk.channel->send(message)) == Status::ok) ++accepted;
  CHECK(status == Status::no_space);
  CHECK(talk.channel->queued_bytes() <= control::kChannelQueueBytesMax);
  std::size_t received = 0;
  const std::size_t whole = accepted * (message.size() + cluster::kFrameOverheadBytes);
  talk.net.until([&] {
    for (Bytes got = talk.raw->receive(); !got.empty(); got = talk.raw->receive()) {
      received += got.size();
    }
    return received >= whole;
  });
  CHECK(received == whole);
  CHECK(talk.channel->send(message) == Status::ok);
}

TEST_CASE("a peer that hangs up closes the channel, once") {
  Talk talk;
  talk.right.reset();
  talk.net.until([&] { return !talk.left_events.closed.empty(); });
  CHECK(talk.left_events.closed.at(0).status == Status::unreachable);
  CHECK(talk.left->send(text("too late")) == Status::invalid_state);
  talk.net.io.restart();
  talk.net.io.poll();
  CHECK(talk.left_events.closed.size() == 1);
}

TEST_CASE("frames that are forged, repeated or garbage close the channel, and none is delivered") {
  const auto after = [](const std::function<Bytes(cluster::FrameSealer&, HalfTalk&)>& make,
                        std::size_t delivered) {
    HalfTalk talk;
    cluster::FrameSealer sealer(talk.keys.send);
    talk.raw->send(make(sealer, talk));
    talk.net.until([&] { return !talk.events.closed.empty(); });
    CHECK(talk.events.closed.at(0).status == Status::corrupt);
    CHECK(talk.events.messages.size() == delivered);
  };
  after([](auto&, auto&) { return Bytes(500, std::byte{0x5a}); }, 0);
  after(
      [](auto& sealer, auto&) {
        Bytes frame = sealer.seal(text("changed")).value();
        frame[20] ^= std::byte{1};
        return frame;
      },
      0);
  after(
      [](auto& sealer, auto&) {
        const Bytes frame = sealer.seal(text("twice")).value();
        Bytes both = frame;
        both.insert(both.end(), frame.begin(), frame.end());
        return both;
      },
      1);
  after(
      [](auto&, HalfTalk& talk) {
        cluster::FrameSealer reflected(talk.keys.receive);
        return reflected.seal(text("the other direction's key")).value();
      },
      0);
}

TEST_CASE("a channel may be destroyed in its own callbacks") {
  for (const bool in_message : {true, false}) {
    Talk talk;
    talk.left_events.then = [&](ClusterChannel&) { talk.left.reset(); };
    if (in_message) {
      CHECK(talk.right->send(text("one")) == Status::ok);
      CHECK(talk.right->send(text("two")) == Status::ok);
    } else {
      talk.right.reset();
    }
    talk.net.until([&] { return !talk.left.has_value(); });
    CHECK(talk.left_events.messages.size() == (in_message ? 1 : 0));
  }
}

}  // namespace cluster_channel_test
