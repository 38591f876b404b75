// Credits and reports of one link: nobody sends what has no receive, nobody waits for the other for
// good, and what was posted is always given back.
// Random parts repeat with SIMM_SEED=<seed>.
#include "daemon/transport/rdma/rdma_channel.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>

#include "daemon/base/random.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"
#include "tests/support/rdma_peer.h"

namespace rdma_channel_test {

using namespace simm;
using namespace simm::transport;
using sim::SimRdmaFabric;
using wire::Envelope;
using wire::MessageKind;

constexpr std::uint32_t kSendsMax = kReceives - kCreditsReserved;

// A channel, and who takes its messages: roster bodies with a number that counts.
struct End final : MessageHandler {
  End(SimRdmaFabric& fabric, bool is_requester, std::uint8_t reads_max = 16)
      : device(fabric.make_device(config_of(reads_max))),
        port(device->make_port(1024).value()),
        made(make_rdma_link(*device, *port, is_requester).value()) {
    made->queue_pair->owner = this;
  }
  ~End() override {
    channel.fail(LinkLoss::dropped);
    if (channel.is_closing()) static_cast<void>(channel.close());
  }
  static sim::SimDeviceConfig config_of(std::uint8_t reads_max) {
    sim::SimDeviceConfig config;
    config.reads_max = reads_max;
    return config;
  }
  void open() { channel.open(std::move(made), 0, base::kNsPerSecond); }
  bool on_part(const Envelope& envelope, std::span<const std::byte> part) noexcept override {
    if (envelope.kind != static_cast<std::uint8_t>(MessageKind::roster)) return true;
    std::uint64_t number = 0;
    std::memcpy(&number, part.data(), sizeof number);
    CHECK(number == taken);
    ++taken;
    return true;
  }
  void on_moved(std::uint32_t tag, std::uint32_t bytes) noexcept override {
    ++moved;
    moved_bytes += bytes;
    last_tag = tag;
  }
  void send_one() {
    std::memset(channel.part(), 0, sizeof(wire::RosterBody));
    std::memcpy(channel.part(), &sent, sizeof sent);
    Envelope envelope = make_envelope(MessageKind::roster, 0, 0);
    envelope.body_bytes = envelope.part_bytes = sizeof(wire::RosterBody);
    channel.send(envelope);
    ++sent;
  }
  // Takes what has ended or arrived; a link gives credits back as soon as it owes them.
  void poll() {
    std::array<Completion, 8> completions;
    const std::size_t count = port->poll(completions);
    for (std::size_t i = 0; i < count; ++i) channel.serve(completions[i], *this, 0);
    if (!channel.is_open()) return;
    if (channel.owes_credit()) channel.send_credit();
    channel.flush();
  }
  // As many as there is room for; how many that were.
  int send_all() {
    int count = 0;
    for (; channel.can_send(); ++count) send_one();
    channel.flush();
    return count;
  }

  RdmaCounters counters;
  std::unique_ptr<sim::SimRdmaDevice> device;
  std::unique_ptr<RdmaPort> port;
  std::unique_ptr<RdmaLink> made;
  RdmaChannel channel{counters};
  std::uint64_t sent = 0;
  std::uint64_t taken = 0;
  int moved = 0;
  std::uint64_t moved_bytes = 0;
  std::uint32_t last_tag = 0;
};

struct Pair {
  explicit Pair(std::uint64_t seed, std::uint8_t requesters_reads = 16,
                std::uint8_t servers_reads = 16)
      : fabric(seed),
        requester(fabric, true, requesters_reads),
        server(fabric, false, servers_reads) {
    REQUIRE(requester.made->queue_pair->connect(server.made->queue_pair->address()).has_value());
    REQUIRE(server.made->queue_pair->connect(requester.made->queue_pair->address()).has_value());
    requester.open();
    server.open();
  }
  SimRdmaFabric fabric;
  End requester;
  End server;
};

std::uint64_t seed() {
  const char* text = std::getenv("SIMM_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

TEST_CASE("rdma channel: never more parts are sent than the other end has receives") {
  Pair pair(1);
  End& sender = pair.requester;
  // The other end's agent has no turns: its device has the receives, and nobody posts new ones.
  for (int i = 0; i < 2000; ++i) {
    sender.send_all();
    pair.fabric.step();
    sender.poll();
  }
  CHECK(sender.sent == kSendsMax);
  CHECK_FALSE(sender.channel.send_bare(make_envelope(MessageKind::ping, 0, 0)));
  // Those for credits alone have what is reserved, and no more.
  for (std::uint32_t i = 0; i < 3 * kCreditsReserved; ++i) sender.channel.send_credit();
  sender.channel.flush();
  pair.fabric.settle();
  CHECK(pair.fabric.counters().sends == kReceives);
  for (int i = 0; i < 200; ++i) {
    pair.server.poll();
    pair.fabric.step();
    sender.poll();
  }
  CHECK(pair.server.taken == kSendsMax);
  CHECK(sender.channel.is_open());
  CHECK(sender.channel.can_send());
}

TEST_CASE("rdma channel: two ends that send at their limit do not wait for each other") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='rdma channel: two ends*'");
  base::SeededRandom random(first_seed);
  for (int round = 0; round < 20; ++round) {
    Pair pair(random.next());
    std::uint64_t last = 0;
    int quiet = 0;
    // One of them may have nothing to say: then only credits are left to say it with.
    const bool requester_talks = round % 3 != 0;
    const bool server_talks = round % 3 != 1;
    std::uint64_t requester_back = 0;
    std::uint64_t server_back = 0;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      // An end may be away for long, and says all it can before it looks at what has come.
      if (i > requester_back + 20 && random.one_in(20)) requester_back = i + random.below(300);
      if (i > server_back + 20 && random.one_in(20)) server_back = i + random.below(300);
      if (i >= requester_back && requester_talks) pair.requester.send_all();
      if (i >= server_back && server_talks) pair.server.send_all();
      pair.fabric.step();
      if (i >= requester_back) pair.requester.poll();
      if (i >= server_back) pair.server.poll();
      const std::uint64_t taken = pair.requester.taken + pair.server.taken;
      quiet = taken == last ? quiet + 1 : 0;
      last = taken;
      REQUIRE(quiet < 1000);
    }
    CHECK((pair.requester.taken > 5 * kReceives || !server_talks));
    CHECK((pair.server.taken > 5 * kReceives || !requester_talks));
    CHECK(pair.requester.channel.is_open());
    CHECK(pair.server.channel.is_open());
  }
}

// What an end does whose peer, played by the test, says it has taken so much.
struct Liar {
  Liar() : end(fabric, false), peer_device(fabric.make_device()), peer(*peer_device, true) {
    peer.connect(*end.made->queue_pair);
    end.open();
  }
  void say(std::uint32_t received) {
    Envelope envelope = make_envelope(MessageKind::credit, 0, 0);
    envelope.received = received;
    peer.send(support::rdma_message(envelope));
    turns();
  }
  void turns() {
    for (int i = 0; i < 200; ++i) {
      fabric.step();
      end.poll();
      peer.take();
    }
  }
  SimRdmaFabric fabric{3};
  End end;
  std::unique_ptr<sim::SimRdmaDevice> peer_device;
  support::RdmaPeer peer;
};

TEST_CASE("rdma channel: a peer that says it took what was not sent, or takes back, is no peer") {
  {
    Liar honest;
    for (int i = 0; i < 5; ++i) honest.end.send_one();
    honest.say(0);
    honest.say(3);
    honest.say(3);
    honest.say(5);
    CHECK(honest.end.channel.is_open());
  }
  for (const std::uint32_t lie : {1u, 7u, ~0u, 1u << 31}) {
    Liar liar;
    liar.say(lie);
    REQUIRE(liar.end.channel.is_closing());
    CHECK(liar.end.channel.link().loss == LinkLoss::protocol);
  }
  {
    Liar liar;
    for (int i = 0; i < 5; ++i) liar.end.send_one();
    liar.say(4);
    CHECK(liar.end.channel.is_open());
    liar.say(3);
    REQUIRE(liar.end.channel.is_closing());
    CHECK(liar.end.channel.link().loss == LinkLoss::protocol);
  }
}

TEST_CASE("rdma channel: what has no report of its own is given back, too") {
  Pair pair(5);
  // One at a time, each to its end: then nothing else could give its buffer back.
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(pair.requester.channel.can_send());
    pair.requester.send_one();
    pair.requester.channel.flush();
    for (int turn = 0; turn < 100 && pair.server.taken < pair.requester.sent; ++turn) {
      pair.fabric.step();
      pair.requester.poll();
      pair.server.poll();
    }
    pair.fabric.settle();
    pair.requester.poll();
    REQUIRE(pair.server.taken == pair.requester.sent);
  }
}

// Of a page that lies in two registrations only the first piece may have been posted when its
// request is cancelled: nothing follows then that would report it.
TEST_CASE("rdma channel: the end of every move is told of, whatever follows it") {
  for (const WorkKind kind : {WorkKind::read, WorkKind::write}) {
    CAPTURE(static_cast<int>(kind));
    Pair pair(6);
    std::vector<std::byte> theirs(1099, std::byte{1});
    std::vector<std::byte> ours(1099, std::byte{2});
    const auto remote =
        pair.requester.device
            ->register_memory({theirs.data(), theirs.size(), -1, 0}, RemoteAccess::read_write)
            .value();
    const auto local =
        pair.server.device->register_memory({ours.data(), ours.size(), -1, 0}, RemoteAccess::none)
            .value();
    for (std::uint32_t i = 0; i < 1000; ++i) {
      REQUIRE((kind == WorkKind::read ? pair.server.channel.can_read()
                                      : pair.server.channel.can_write()));
      Work work;
      work.kind = kind;
      work.part_count = 1;
      work.parts[0] = {ours.data(), 100 + i, local->local_key};
      work.remote = {remote->remote_address, remote->remote_key};
      pair.server.channel.move(work, i, 100 + i, 0);
      pair.server.channel.flush();
      for (int turn = 0; turn < 100 && pair.server.moved <= static_cast<int>(i); ++turn) {
        pair.fabric.step();
        pair.server.poll();
      }
      REQUIRE(pair.server.moved == static_cast<int>(i) + 1);
      CHECK(pair.server.last_tag == i);
    }
    CHECK(ours == theirs);
    // The link goes before the memory that its works name.
    pair.server.channel.fail(LinkLoss::dropped);
    static_cast<void>(pair.server.channel.close());
  }
}

TEST_CASE("rdma channel: no more READs at a time than the weaker of the two devices can do") {
  struct Reads {
    int requesters, servers, both;
  };
  for (const Reads& reads : {Reads{3, 16, 3}, Reads{16, 5, 5}, Reads{16, 16, 16}}) {
    const int requesters = reads.requesters;
    const int servers = reads.servers;
    const int both = reads.both;
    CAPTURE(requesters);
    CAPTURE(servers);
    Pair pair(8, static_cast<std::uint8_t>(requesters), static_cast<std::uint8_t>(servers));
    std::vector<std::byte> bytes(64);
    const auto remote =
        pair.requester.device
            ->register_memory({bytes.data(), bytes.size(), -1, 0}, RemoteAccess::read_write)
            .value();
    const auto local =
        pair.server.device->register_memory({bytes.data(), bytes.size(), -1, 0}, RemoteAccess::none)
            .value();
    int posted = 0;
    for (; pair.server.channel.can_read() && posted < 100; ++posted) {
      Work work;
      work.kind = WorkKind::read;
      work.part_count = 1;
      work.parts[0] = {bytes.data(), 1, local->local_key};
      work.remote = {remote->remote_address + 1, remote->remote_key};
      pair.server.channel.move(work, 0, 1, 0);
    }
    CHECK(posted == both);
    CHECK(pair.server.channel.can_write());
    pair.server.channel.fail(LinkLoss::dropped);
    static_cast<void>(pair.server.channel.close());
  }
}

// A device that takes no more works: what the agent had still to say in that turn is dropped.
TEST_CASE("rdma channel: an end whose device refuses works is over, however much it still says") {
  Pair pair(7);
  std::vector<std::byte> ours(4096);
  const auto local =
      pair.server.device->register_memory({ours.data(), ours.size(), -1, 0}, RemoteAccess::none)
          .value();
  pair.server.device->refuse_posts(pair.server.channel.link().queue_pair->address().number, 3);
  for (std::uint32_t i = 0; i < 200; ++i) {
    Work work;
    work.kind = WorkKind::write;
    work.part_count = 1;
    work.parts[0] = {ours.data(), 1, local->local_key};
    pair.server.channel.move(work, i, 1, 0);
  }
  pair.server.channel.flush();
  REQUIRE(pair.server.channel.is_closing());
  CHECK(pair.server.channel.link().loss == LinkLoss::io_error);
  for (int i = 0; i < 100; ++i) {
    pair.fabric.step();
    pair.server.poll();
  }
  CHECK(pair.server.moved == 0);
  static_cast<void>(pair.server.channel.close());
  CHECK(pair.server.channel.is_free());
}

}  // namespace rdma_channel_test
