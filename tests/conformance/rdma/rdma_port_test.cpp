// The RDMA seam: what every implementation of RdmaDevice, RdmaPort and QueuePair does, whatever the
// devices are. On the host the simulated ones play; in the guest (tests/guest/rdma.sh) soft RoCE.
#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "tests/conformance/rdma/rdma_ends.h"

namespace rdma_conformance {
namespace {

// Plays a scene in every world.
template <typename Scene>
void play(Scene scene, const RdmaWorldOptions& options = {}) {
  for (const RdmaWorldKind& kind : rdma_worlds(5)) {
    CAPTURE(kind.name);
    RdmaEnds ends(kind, options);
    scene(ends);
  }
}

std::vector<std::uint64_t> ids(const std::vector<Completion>& completions) {
  std::vector<std::uint64_t> found;
  for (const Completion& completion : completions) found.push_back(completion.id);
  return found;
}

std::vector<WorkStatus> statuses(const std::vector<Completion>& completions) {
  std::vector<WorkStatus> found;
  for (const Completion& completion : completions) found.push_back(completion.status);
  return found;
}

void fill(std::span<std::byte> memory, unsigned seed) {
  for (std::byte& byte : memory) byte = std::byte((seed = seed * 1664525 + 1013904223) >> 24);
}

bool same(const std::vector<std::byte>& one, std::size_t at, const std::vector<std::byte>& other,
          std::size_t there, std::size_t bytes) {
  return std::memcmp(one.data() + at, other.data() + there, bytes) == 0;
}

TEST_CASE("rdma port: what a device says of itself, of memory, of a queue pair") {
  play([](RdmaEnds& ends) {
    for (RdmaEnd* end : {&ends.server, &ends.requester}) {
      const RdmaDeviceInfo& info = end->device.info();
      CHECK_FALSE(info.device.empty());
      CHECK(info.queue_pairs_max > 0);
      CHECK(info.completions_max >= 1024);
      CHECK(info.reads_max > 0);
      const QueuePairAddress& address = end->queue_pair->address();
      CHECK(address.number > 0);
      CHECK(address.number < 1u << 24);
      CHECK(address.gid != decltype(address.gid){});
      CHECK(address.mtu_bytes == end->device.address().mtu_bytes);
      CHECK(address.reads_in > 0);
      CHECK(end->device.refresh().has_value());
      CHECK(end->device.address().gid == address.gid);
      CHECK(end->own_registration->remote_key == 0);
      CHECK(end->own_registration->remote_address == 0);
      CHECK(end->open_registration->local_key == 0);
      CHECK(end->open_registration->remote_key != 0);
      const auto pointer = reinterpret_cast<std::uint64_t>(end->open.data());
      CHECK(end->open_registration->remote_address != pointer);
      CHECK(end->open_registration->remote_address % 4096 == pointer % 4096);
    }
    CHECK(ends.requester.device.register_memory({}, RemoteAccess::none).status() ==
          Status::invalid_argument);
  });
}

TEST_CASE("rdma port: an end that can not be reached is refused") {
  play([](RdmaEnds& ends) {
    const QueuePairAddress good = ends.requester.queue_pair->address();
    const auto refused = [&](const QueuePairAddress& wrong) {
      return ends.server.make(false)->connect(wrong).status() == Status::invalid_argument;
    };
    QueuePairAddress wrong = good;
    wrong.is_ethernet = !wrong.is_ethernet;
    CHECK(refused(wrong));
    wrong = good;
    wrong.mtu_bytes = 1500;
    CHECK(refused(wrong));
    wrong = good;
    wrong.number = 1u << 24;
    CHECK(refused(wrong));
    wrong = good;
    wrong.reads_in = 0;
    CHECK(refused(wrong));
    CHECK(ends.server.make(false)->connect(good).has_value());
  });
}

TEST_CASE("rdma port: READs at a time are as many as both ends can do") {
  play([](RdmaEnds& ends) {
    const QueuePairAddress far = ends.requester.queue_pair->address();
    CHECK(ends.server.queue_pair->reads_max() ==
          std::min(far.reads_in, ends.server.queue_pair->address().reads_in));
    QueuePairAddress weak = far;
    weak.reads_in = 1;
    const auto made = ends.server.make(false);
    REQUIRE(made->connect(weak).has_value());
    CHECK(made->reads_max() == 1);
  });
}

TEST_CASE("rdma port: messages arrive in order, both ways") {
  play([](RdmaEnds& ends) {
    constexpr std::size_t kSlot = 8192;
    constexpr std::uint64_t kCount = 40;
    for (auto [from, to] :
         {std::pair(&ends.requester, &ends.server), {&ends.server, &ends.requester}}) {
      fill(from->own, 1);
      for (std::uint64_t id = 0; id < kCount; ++id) {
        REQUIRE(to->queue_pair->post_receive(1000 + id, to->part(id * kSlot, kSlot)));
      }
      std::vector<Work> works;
      for (std::uint64_t id = 0; id < kCount; ++id) {
        works.push_back(from->work(~id, WorkKind::send, id * 200, {}, id % 8 == 7));
        works.back().parts[0].at += id;
      }
      REQUIRE(from->queue_pair->post(works) == kCount);
      const auto received = ends.reported(*to, kCount);
      REQUIRE(received.size() == kCount);
      for (std::uint64_t id = 0; id < kCount; ++id) {
        CHECK(received[id].id == 1000 + id);
        CHECK(received[id].is_receive);
        CHECK(received[id].queue_pair == to->queue_pair.get());
        CHECK(received[id].bytes == id * 200);
        CHECK(same(from->own, id, to->own, id * kSlot, id * 200));
      }
      const auto sent = ends.reported(*from, 5);
      CHECK(ids(sent) == std::vector<std::uint64_t>{~7ull, ~15ull, ~23ull, ~31ull, ~39ull});
      CHECK(statuses(sent) == std::vector<WorkStatus>(5, WorkStatus::ok));
      CHECK_FALSE(sent[0].is_receive);
    }
  });
}

TEST_CASE("rdma port: READ and WRITE of many sizes, of one part and of two") {
  play([](RdmaEnds& ends) {
    RdmaEnd& server = ends.server;
    RdmaEnd& requester = ends.requester;
    unsigned seed = 1;
    for (const std::size_t bytes :
         {0ul, 1ul, 63ul, 64ul, 4095ul, 4096ul, 4097ul, 65536ul, 1048579ul}) {
      CAPTURE(bytes);
      const std::size_t cut = bytes / 3;
      const std::size_t far = 2'000'000;
      fill(server.own, ++seed);
      fill(requester.open, ++seed);
      const auto before = requester.open;
      Work write = server.work(1, WorkKind::write, bytes, requester.remote(5), false);
      Work read = server.work(2, WorkKind::read, bytes, requester.remote(5));
      write.part_count = read.part_count = bytes == 0 ? 0 : 2;
      write.parts = {server.part(7, cut), server.part(far + 1, bytes - cut)};
      read.parts = {server.part(far + 1'100'003, bytes - cut), server.part(1'100'001, cut)};
      const Work works[] = {write, read};
      REQUIRE(server.queue_pair->post(works) == 2);
      const auto ended = ends.reported(server, 1);
      REQUIRE(statuses(ended) == std::vector<WorkStatus>{WorkStatus::ok});
      CHECK(same(requester.open, 0, before, 0, 5));
      CHECK(same(requester.open, 5, server.own, 7, cut));
      CHECK(same(requester.open, 5 + cut, server.own, far + 1, bytes - cut));
      CHECK(same(requester.open, 5 + bytes, before, 5 + bytes, kMemoryBytes - 5 - bytes));
      CHECK(same(server.own, far + 1'100'003, requester.open, 5, bytes - cut));
      CHECK(same(server.own, 1'100'001, requester.open, 5 + bytes - cut, cut));
    }
  });
}

TEST_CASE("rdma port: works that report nothing make room all the same") {
  play([](RdmaEnds& ends) {
    RdmaEnd& server = ends.server;
    for (std::uint64_t round = 0; round < 20; ++round) {
      std::vector<Work> works(63,
                              server.work(0, WorkKind::write, 100, ends.requester.remote(), false));
      works.push_back(server.work(round, WorkKind::read, 100, ends.requester.remote()));
      REQUIRE(server.queue_pair->post(works) == 64);
      REQUIRE(ends.turn_until([&] { return !server.ended.empty(); }));
      REQUIRE(ids(server.take()) == std::vector<std::uint64_t>{round});
    }
  });
}

// Works that the asking end's memory does not allow, with a good one before and two behind.
void expect_refused(RdmaEnds& ends, WorkKind kind, const RemotePart& where, std::size_t bytes) {
  CAPTURE(static_cast<int>(kind));
  RdmaEnd& server = ends.server;
  const RemotePart good = ends.requester.remote();
  fill(server.own, 3);
  REQUIRE(ends.requester.queue_pair->post_receive(77, ends.requester.part(0, 64)));
  const auto before = ends.requester.open;
  const Work works[] = {
      server.work(1, WorkKind::send, 10, {}, false), server.work(2, kind, bytes, where, false),
      server.work(3, WorkKind::write, 200, good, false), server.work(4, WorkKind::read, 200, good)};
  REQUIRE(server.queue_pair->post(works) == 4);
  auto ended = ends.reported(server, 3);
  CHECK(ids(ended) == std::vector<std::uint64_t>{2, 3, 4});
  CHECK(statuses(ended) == std::vector<WorkStatus>{WorkStatus::remote_access, WorkStatus::flushed,
                                                   WorkStatus::flushed});
  CHECK(ends.requester.open == before);
  CHECK(ids(ends.requester.take()) == std::vector<std::uint64_t>{77});
  // A work that is posted later comes back as well; a receive may be forgotten.
  REQUIRE(server.queue_pair->post({&works[0], 1}) == 1);
  ended = ends.reported(server, 1);
  CHECK(statuses(ended) == std::vector<WorkStatus>{WorkStatus::flushed});
  REQUIRE(server.queue_pair->post_receive(5, server.part(0, 64)));
  ends.turns(RdmaEnds::kLittleLonger);
  ended = server.take();
  CHECK(ended.size() <= 1);
  if (!ended.empty()) CHECK(ended[0].status == WorkStatus::flushed);
}

TEST_CASE("rdma port: what was not granted is refused, and the rest flushed exactly once") {
  play([](RdmaEnds& ends) {
    for (const WorkKind kind : {WorkKind::write, WorkKind::read}) {
      RemotePart where = ends.requester.remote();
      where.key ^= 0x5a5a00;
      expect_refused(ends, kind, where, 100);
      ends.connect();
      expect_refused(ends, kind, ends.requester.remote(kMemoryBytes - 99), 100);
      ends.connect();
      where = ends.requester.remote();
      where.address -= 1;
      expect_refused(ends, kind, where, 100);
      ends.connect();
      // Registered once, and not any more.
      auto other = ends.requester.device
                       .register_memory({ends.requester.own.data(), 4096}, RemoteAccess::read_write)
                       .value();
      where = {other->remote_address, other->remote_key};
      other.reset();
      expect_refused(ends, kind, where, 100);
      ends.connect();
    }
  });
}

TEST_CASE("rdma port: a serving end's memory is nobody's, even with its key") {
  play([](RdmaEnds& ends) {
    for (const WorkKind kind : {WorkKind::write, WorkKind::read}) {
      const auto before = ends.server.open;
      fill(ends.requester.own, 9);
      const auto mine = ends.requester.own;
      const Work work = ends.requester.work(1, kind, 100, ends.server.remote());
      REQUIRE(ends.requester.queue_pair->post({&work, 1}) == 1);
      const auto ended = ends.reported(ends.requester, 1);
      REQUIRE(ended.size() == 1);
      const bool is_refused = ended[0].status == WorkStatus::remote_failure ||
                              ended[0].status == WorkStatus::remote_access;
      CHECK(is_refused);
      CHECK(ends.server.open == before);
      CHECK(ends.requester.own == mine);
      ends.connect();
    }
  });
}

TEST_CASE("rdma port: a message waits for a receive") {
  play([](RdmaEnds& ends) {
    const Work work = ends.requester.work(1, WorkKind::send, 10);
    REQUIRE(ends.requester.queue_pair->post({&work, 1}) == 1);
    ends.turns(10);
    CHECK(ends.requester.ended.empty());
    REQUIRE(ends.server.queue_pair->post_receive(2, ends.server.part(0, 64)));
    CHECK(statuses(ends.reported(ends.requester, 1)) == std::vector<WorkStatus>{WorkStatus::ok});
    CHECK(ids(ends.server.take()) == std::vector<std::uint64_t>{2});
  });
}

TEST_CASE("rdma port: a message that never finds a receive comes back") {
  RdmaWorldOptions options;
  options.gives_up_soon = true;
  play(
      [](RdmaEnds& ends) {
        const Work works[] = {ends.requester.work(1, WorkKind::send, 10, {}, false),
                              ends.requester.work(2, WorkKind::send, 10, {}, false)};
        REQUIRE(ends.requester.queue_pair->post(works) == 2);
        CHECK(statuses(ends.reported(ends.requester, 2)) ==
              std::vector<WorkStatus>{WorkStatus::receiver_full, WorkStatus::flushed});
      },
      options);
}

TEST_CASE("rdma port: a message that is too long for its receive fails both ends") {
  play([](RdmaEnds& ends) {
    REQUIRE(ends.server.queue_pair->post_receive(2, ends.server.part(0, 64)));
    REQUIRE(ends.server.queue_pair->post_receive(3, ends.server.part(64, 64)));
    const Work work = ends.requester.work(1, WorkKind::send, 65);
    REQUIRE(ends.requester.queue_pair->post({&work, 1}) == 1);
    CHECK(statuses(ends.reported(ends.requester, 1)) ==
          std::vector<WorkStatus>{WorkStatus::remote_failure});
    const auto received = ends.reported(ends.server, 2);
    CHECK(statuses(received) ==
          std::vector<WorkStatus>{WorkStatus::local_failure, WorkStatus::flushed});
  });
}

TEST_CASE("rdma port: who is gone is noticed") {
  play([](RdmaEnds& ends) {
    ends.requester.queue_pair->destroy();
    const Work works[] = {ends.server.work(1, WorkKind::write, 100, ends.requester.remote(), false),
                          ends.server.work(2, WorkKind::write, 100, ends.requester.remote())};
    REQUIRE(ends.server.queue_pair->post(works) == 2);
    const auto ended = ends.reported(ends.server, 2);
    CHECK(statuses(ended) == std::vector<WorkStatus>{WorkStatus::peer_lost, WorkStatus::flushed});
  });
}

TEST_CASE("rdma port: fail() flushes what is outstanding, in order, once") {
  play([](RdmaEnds& ends) {
    RdmaEnd& requester = ends.requester;
    for (std::uint64_t id = 0; id < 3; ++id) {
      REQUIRE(requester.queue_pair->post_receive(id, requester.part(0, 64)));
    }
    const Work works[] = {requester.work(10, WorkKind::send, 1, {}, false),
                          requester.work(11, WorkKind::send, 1)};
    REQUIRE(requester.queue_pair->post(works) == 2);  // and no receive is there
    requester.queue_pair->fail();
    auto ended = ends.reported(requester, 5);
    std::stable_partition(ended.begin(), ended.end(), [](const auto& c) { return c.is_receive; });
    CHECK(ids(ended) == std::vector<std::uint64_t>{0, 1, 2, 10, 11});
    CHECK(statuses(ended) == std::vector<WorkStatus>(5, WorkStatus::flushed));
  });
}

TEST_CASE("rdma port: nothing is polled of a queue pair that was destroyed") {
  play([](RdmaEnds& ends) {
    for (int round = 0; round < 30; ++round) {
      RdmaEnd& server = ends.server;
      for (std::uint64_t id = 0; id < 10; ++id) {
        REQUIRE(server.queue_pair->post_receive(id, server.part(0, 64)));
      }
      const std::vector<Work> works(30,
                                    server.work(1, WorkKind::write, 10, ends.requester.remote()));
      REQUIRE(server.queue_pair->post(works) == 30);
      // Nobody polls: what was reported is there, and what prepare_sleep() has found.
      for (int i = 0; i < round; ++i) ends.world->turn();
      static_cast<void>(server.port->prepare_sleep());
      server.queue_pair->fail();
      for (int i = 0; i < round % 5; ++i) ends.world->turn();
      server.queue_pair->destroy();
      server.queue_pair->destroy();
      ends.connect();
      REQUIRE(ends.server.queue_pair->post_receive(1000, server.part(0, 64)));
      const Work work = ends.requester.work(1, WorkKind::send, 10);
      REQUIRE(ends.requester.queue_pair->post({&work, 1}) == 1);
      REQUIRE(
          ends.turn_until([&] { return !server.ended.empty() && !ends.requester.ended.empty(); }));
      CHECK(ids(server.take()) == std::vector<std::uint64_t>{1000});
      CHECK(ids(ends.requester.take()) == std::vector<std::uint64_t>{1});
    }
  });
}

TEST_CASE("rdma port: who has prepared to sleep is woken by the descriptor") {
  play([](RdmaEnds& ends) {
    RdmaEnd& server = ends.server;
    for (std::uint64_t round = 0; round < 5; ++round) {
      pollfd descriptor{server.port->event_descriptor(), POLLIN, 0};
      REQUIRE(server.queue_pair->post_receive(round, server.part(0, 64)));
      REQUIRE(server.port->prepare_sleep());
      // Again, as who was woken by something else.
      REQUIRE(server.port->prepare_sleep());
      CHECK(::poll(&descriptor, 1, 0) == 0);
      const Work work = ends.requester.work(1, WorkKind::send, 10, {}, true);
      REQUIRE(ends.requester.queue_pair->post({&work, 1}) == 1);
      int left = ends.world->patience_turns();
      while (left-- > 0 && ::poll(&descriptor, 1, 0) == 0) ends.world->turn();
      CHECK(::poll(&descriptor, 1, 0) == 1);
      // Every other time it has polled before it prepares to sleep again.
      if (round % 2 == 0) CHECK_FALSE(server.port->prepare_sleep());
      CHECK(ids(ends.reported(server, 1)) == std::vector<std::uint64_t>{round});
      CHECK(ends.requester.take().size() == 1);
    }
  });
}

TEST_CASE("rdma port: a completion queue has room for so many queue pairs, and for new ones") {
  play([](RdmaEnds& ends) {
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<QueuePair>> more;
      QueuePairConfig config;
      config.sends_max = 64;
      config.receives_max = 64;
      for (int i = 0; i < 7; ++i) more.push_back(ends.server.make(false));
      const auto refused = ends.server.port->make_queue_pair(config);
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.status() == Status::out_of_memory);
      CHECK_FALSE(refused.error().context.empty());
    }
    CHECK(ends.server.device.make_port(0).status() == Status::out_of_memory);
  });
}

}  // namespace
}  // namespace rdma_conformance
