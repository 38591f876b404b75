// The rules of the simulated fabric: what tests of the transport may rely on, and what they can do.
#include "tests/sim/rdma/sim_rdma_fabric.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <vector>

namespace sim_rdma_fabric_test {

using namespace simm;
using namespace simm::transport;
using sim::SimDeviceConfig;
using sim::SimRdmaDevice;
using sim::SimRdmaFabric;

constexpr std::size_t kBytes = 256 * 1024;

// A device, its port, a queue pair, memory of its own and memory for the other end.
struct End {
  End(SimRdmaFabric& fabric, bool is_requester, const SimDeviceConfig& config = {})
      : device(fabric.make_device(config)),
        port(device->make_port(4096).value()),
        own(kBytes),
        open(kBytes),
        own_registration(
            device->register_memory({own.data(), own.size()}, RemoteAccess::none).value()),
        open_registration(
            device->register_memory({open.data(), open.size()}, RemoteAccess::read_write).value()) {
    queue_pair = make(is_requester);
  }

  std::unique_ptr<QueuePair> make(bool is_requester) {
    QueuePairConfig config;
    config.is_requester = is_requester;
    config.sends_max = 64;
    return port->make_queue_pair(config).value();
  }
  LocalPart part(std::size_t offset, std::size_t bytes) {
    return {own.data() + offset, static_cast<std::uint32_t>(bytes), own_registration->local_key};
  }
  RemotePart remote(std::size_t offset = 0) const {
    return {open_registration->remote_address + offset, open_registration->remote_key};
  }
  Work work(std::uint64_t id, WorkKind kind, std::size_t bytes, const RemotePart& where = {},
            bool is_signaled = true) {
    return {id, kind, is_signaled, 1, {part(0, bytes), {}}, where};
  }
  // All that poll() has.
  std::vector<Completion> poll() {
    std::vector<Completion> all;
    Completion some[8];
    while (const std::size_t count = port->poll(some)) all.insert(all.end(), some, some + count);
    return all;
  }

  std::unique_ptr<SimRdmaDevice> device;
  std::unique_ptr<RdmaPort> port;
  std::vector<std::byte> own;
  std::vector<std::byte> open;
  std::unique_ptr<Registration> own_registration;
  std::unique_ptr<Registration> open_registration;
  std::unique_ptr<QueuePair> queue_pair;
};

// A serving end and an asking one, connected.
struct Pair {
  explicit Pair(std::uint64_t seed, const SimDeviceConfig& config = {})
      : fabric(seed), server(fabric, false, config), requester(fabric, true, config) {
    connect();
  }
  void connect() {
    REQUIRE(server.queue_pair->connect(requester.queue_pair->address()).has_value());
    REQUIRE(requester.queue_pair->connect(server.queue_pair->address()).has_value());
  }
  SimRdmaFabric fabric;
  End server;
  End requester;
};

std::vector<std::uint64_t> ids(const std::vector<Completion>& completions) {
  std::vector<std::uint64_t> found;
  for (const Completion& completion : completions) found.push_back(completion.id);
  return found;
}

std::size_t count_of(const std::vector<std::byte>& bytes, std::byte value) {
  return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), value));
}

// That it aborts: in a child, which says so on a descriptor that nobody reads.
bool aborts(const std::function<void()>& what) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    ::close(STDERR_FILENO);
    what();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST_CASE("sim rdma: messages arrive in order, in the oldest receive") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Pair pair(seed);
    for (std::uint64_t id = 0; id < 8; ++id) {
      REQUIRE(pair.server.queue_pair->post_receive(id, pair.server.part(id * 64, 64)));
    }
    std::vector<Work> works;
    for (std::uint64_t id = 0; id < 8; ++id) {
      pair.requester.own[id] = std::byte(id + 1);
      Work work = pair.requester.work(100 + id, WorkKind::send, 1, {}, id % 4 == 3);
      work.parts[0].at += id;
      works.push_back(work);
    }
    REQUIRE(pair.requester.queue_pair->post(works) == 8);
    pair.fabric.settle();
    CHECK(ids(pair.requester.poll()) == std::vector<std::uint64_t>{103, 107});
    const auto received = pair.server.poll();
    CHECK(ids(received) == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7});
    for (std::uint64_t id = 0; id < 8; ++id) {
      CHECK(received[id].bytes == 1);
      CHECK(received[id].is_receive);
      CHECK(pair.server.own[id * 64] == std::byte(id + 1));
    }
    CHECK(pair.fabric.counters().sends == 8);
  }
}

TEST_CASE("sim rdma: a write arrives in pieces, its completion later, and only in step()") {
  std::size_t half_written = 0;
  std::size_t late = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Pair pair(seed);
    std::fill(pair.server.own.begin(), pair.server.own.end(), std::byte{7});
    const Work work = pair.server.work(1, WorkKind::write, kBytes, pair.requester.remote());
    REQUIRE(pair.server.queue_pair->post({&work, 1}) == 1);
    CHECK(count_of(pair.requester.open, std::byte{7}) == 0);
    std::vector<Completion> ended;
    for (int i = 0; ended.empty() && i < 10'000; ++i) {
      const std::size_t written = count_of(pair.requester.open, std::byte{7});
      half_written += written > 0 && written < kBytes;
      late += written == kBytes;
      pair.fabric.step();
      ended = pair.server.poll();
    }
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].status == WorkStatus::ok);
    CHECK(pair.requester.open == pair.server.own);
    CHECK(pair.fabric.counters().written_bytes == kBytes);
  }
  CHECK(half_written > 100);
  CHECK(late > 20);
}

TEST_CASE("sim rdma: reads bring what was there, into two parts") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Pair pair(seed);
    for (std::size_t i = 0; i < kBytes; ++i) pair.requester.open[i] = std::byte(i * 31 >> 3);
    Work work = pair.server.work(1, WorkKind::read, 0, pair.requester.remote(5));
    work.part_count = 2;
    work.parts = {pair.server.part(100'000, 3), pair.server.part(10, 70'000)};
    const std::vector<Work> works(40, work);  // more than reads_max
    REQUIRE(pair.server.queue_pair->post(works) == works.size());
    pair.fabric.settle();
    CHECK(pair.server.poll().size() == works.size());
    CHECK(std::equal(pair.requester.open.begin() + 5, pair.requester.open.begin() + 8,
                     pair.server.own.begin() + 100'000));
    CHECK(std::equal(pair.requester.open.begin() + 8, pair.requester.open.begin() + 70'008,
                     pair.server.own.begin() + 10));
    CHECK(pair.fabric.counters().read_bytes == 40u * 70'003);
  }
}

TEST_CASE("sim rdma: what the other end does not grant fails, and the rest is flushed once") {
  const auto expect = [](Pair& pair, const RemotePart& where, WorkStatus status) {
    End& server = pair.server;
    std::fill(server.own.begin(), server.own.end(), std::byte{7});
    const Work works[] = {server.work(1, WorkKind::write, 0, where, false),
                          server.work(2, WorkKind::write, 100, where, false),
                          server.work(3, WorkKind::write, 10, pair.requester.remote(), false),
                          server.work(4, WorkKind::read, 10, pair.requester.remote(), true)};
    REQUIRE(server.queue_pair->post(works) == 4);
    pair.fabric.settle();
    auto ended = server.poll();
    CHECK(ids(ended) == std::vector<std::uint64_t>{2, 3, 4});
    REQUIRE(ended.size() == 3);
    CHECK(ended[0].status == status);
    CHECK(ended[1].status == WorkStatus::flushed);
    CHECK(ended[2].status == WorkStatus::flushed);
    CHECK(count_of(pair.requester.open, std::byte{7}) == 0);
    // It is posted, and comes back; of receives some do.
    REQUIRE(server.queue_pair->post({&works[3], 1}) == 1);
    for (std::uint64_t id = 9; id < 40; ++id) {
      REQUIRE(server.queue_pair->post_receive(id, server.part(0, 64)));
    }
    pair.fabric.settle();
    ended = server.poll();
    CHECK(ended.size() > 1);
    CHECK(ended.size() < 32);
    for (const Completion& each : ended) CHECK(each.status == WorkStatus::flushed);
  };
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    Pair wrong_key(seed);
    RemotePart where = wrong_key.requester.remote();
    where.key += 1;
    expect(wrong_key, where, WorkStatus::remote_access);
    Pair beyond(seed);
    expect(beyond, beyond.requester.remote(kBytes - 99), WorkStatus::remote_access);
    Pair before(seed);
    where = before.requester.remote();
    where.address -= 1;
    expect(before, where, WorkStatus::remote_access);
  }
}

TEST_CASE("sim rdma: deregistered memory is not reached, and both ends fail") {
  Pair pair(3);
  const RemotePart where = pair.requester.remote();
  REQUIRE(pair.requester.queue_pair->post_receive(5, pair.requester.part(0, 64)));
  const Work work = pair.server.work(1, WorkKind::read, kBytes, where);
  REQUIRE(pair.server.queue_pair->post({&work, 1}) == 1);
  while (pair.fabric.counters().read_bytes == 0) pair.fabric.step();
  pair.requester.open_registration.reset();
  pair.fabric.settle();
  const auto ended = pair.server.poll();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status == WorkStatus::remote_access);
  const auto received = pair.requester.poll();
  REQUIRE(received.size() == 1);
  CHECK(received[0].status == WorkStatus::flushed);
}

TEST_CASE("sim rdma: a serving end grants nothing") {
  Pair pair(4);
  const Work work = pair.requester.work(1, WorkKind::write, 10, pair.server.remote());
  REQUIRE(pair.requester.queue_pair->post({&work, 1}) == 1);
  pair.fabric.settle();
  const auto ended = pair.requester.poll();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status == WorkStatus::remote_failure);
}

TEST_CASE("sim rdma: without a receive a message is repeated for some steps") {
  Pair pair(5);
  const Work work = pair.requester.work(1, WorkKind::send, 10);
  REQUIRE(pair.requester.queue_pair->post({&work, 1}) == 1);
  for (int i = 0; i < 10; ++i) pair.fabric.step();
  REQUIRE(pair.server.queue_pair->post_receive(7, pair.server.part(0, 64)));
  pair.fabric.settle();
  CHECK(ids(pair.server.poll()) == std::vector<std::uint64_t>{7});
  CHECK(pair.requester.poll().at(0).status == WorkStatus::ok);
  REQUIRE(pair.requester.queue_pair->post({&work, 1}) == 1);
  pair.fabric.settle();
  CHECK(pair.requester.poll().at(0).status == WorkStatus::receiver_full);
}

TEST_CASE("sim rdma: a message that does not fit fails both ends") {
  Pair pair(6);
  REQUIRE(pair.server.queue_pair->post_receive(7, pair.server.part(0, 9)));
  const Work work = pair.requester.work(1, WorkKind::send, 10);
  REQUIRE(pair.requester.queue_pair->post({&work, 1}) == 1);
  pair.fabric.settle();
  CHECK(pair.server.poll().at(0).status == WorkStatus::local_failure);
  CHECK(pair.requester.poll().at(0).status == WorkStatus::remote_failure);
}

TEST_CASE("sim rdma: a cable that is out for a moment is waited for, and longer is peer_lost") {
  Pair pair(7);
  const Work work = pair.server.work(1, WorkKind::write, kBytes, pair.requester.remote());
  REQUIRE(pair.server.queue_pair->post({&work, 1}) == 1);
  for (int i = 0; i < 10; ++i) pair.fabric.step();
  pair.fabric.cut(*pair.requester.device);
  for (int i = 0; i < 20; ++i) pair.fabric.step();
  pair.fabric.join(*pair.requester.device);
  pair.fabric.settle();
  CHECK(pair.server.poll().at(0).status == WorkStatus::ok);

  REQUIRE(pair.server.queue_pair->post({&work, 1}) == 1);
  pair.fabric.cut(*pair.requester.device);
  pair.fabric.settle();
  CHECK(pair.server.poll().at(0).status == WorkStatus::peer_lost);
  CHECK(pair.fabric.under_way(*pair.server.device, *pair.requester.device) == 0);
}

TEST_CASE("sim rdma: packets outlive their sender, and destroy() of the receiver stops them") {
  for (const bool is_fenced : {false, true}) {
    CAPTURE(is_fenced);
    Pair pair(8);
    std::fill(pair.server.own.begin(), pair.server.own.end(), std::byte{7});
    const Work work = pair.server.work(1, WorkKind::write, 1000, pair.requester.remote());
    pair.fabric.hold(*pair.server.device, *pair.requester.device);
    REQUIRE(pair.server.queue_pair->post({&work, 1}) == 1);
    pair.fabric.settle();
    pair.server.queue_pair->destroy();
    if (is_fenced) pair.requester.queue_pair->destroy();
    CHECK(pair.fabric.under_way(*pair.server.device, *pair.requester.device) > 0);
    CHECK(count_of(pair.requester.open, std::byte{7}) == 0);
    // New ones, with the old numbers perhaps, do not take them.
    std::vector<std::unique_ptr<QueuePair>> others;
    for (int i = 0; i < 8; ++i) {
      others.push_back(pair.requester.make(true));
      REQUIRE(others.back()->connect(pair.server.queue_pair->address()).has_value());
    }
    pair.fabric.release(*pair.server.device, *pair.requester.device);
    pair.fabric.settle();
    CHECK(count_of(pair.requester.open, std::byte{7}) == (is_fenced ? 0 : 1000));
    CHECK(pair.server.poll().empty());
  }
}

TEST_CASE("sim rdma: a queue pair that has failed is no fence") {
  std::uint64_t late_bytes = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Pair pair(seed);
    const Work work = pair.server.work(1, WorkKind::write, kBytes, pair.requester.remote());
    REQUIRE(pair.server.queue_pair->post({&work, 1}) == 1);
    while (pair.fabric.counters().written_bytes == 0) pair.fabric.step();
    pair.requester.queue_pair->fail();
    pair.fabric.settle();
    late_bytes += pair.fabric.counters().late_bytes;
    CHECK(pair.server.poll().at(0).status == WorkStatus::peer_lost);
  }
  CHECK(late_bytes > 0);
}

TEST_CASE("sim rdma: no completion after destroy(), and numbers come back") {
  Pair pair(9);
  REQUIRE(pair.server.queue_pair->post_receive(1, pair.server.part(0, 64)));
  pair.server.queue_pair->fail();
  pair.fabric.settle();
  const std::uint32_t number = pair.server.queue_pair->address().number;
  pair.server.queue_pair->destroy();
  CHECK(pair.server.poll().empty());
  pair.server.queue_pair.reset();
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 10; ++i) numbers.push_back(pair.server.make(false)->address().number);
  CHECK(std::find(numbers.begin(), numbers.end(), number) != numbers.end());
}

TEST_CASE("sim rdma: controls of one queue pair") {
  Pair pair(10);
  const std::uint32_t number = pair.requester.queue_pair->address().number;
  const std::vector<Work> works(5, pair.requester.work(1, WorkKind::send, 1));
  pair.requester.device->refuse_posts(number, 3);
  CHECK(pair.requester.queue_pair->post(works) == 3);
  CHECK(pair.requester.queue_pair->post(works) == 0);
  CHECK_FALSE(pair.requester.queue_pair->post_receive(1, pair.requester.part(0, 1)));
  pair.requester.device->allow_posts(number);
  CHECK(pair.requester.queue_pair->post(works) == 5);
  pair.requester.device->fail_queue_pair(number);
  pair.fabric.settle();
  const auto ended = pair.requester.poll();
  CHECK(ended.size() == 8);
  for (const Completion& completion : ended) CHECK(completion.status == WorkStatus::flushed);
}

TEST_CASE("sim rdma: the descriptor wakes who has prepared to sleep") {
  Pair pair(11);
  pollfd descriptor{pair.server.port->event_descriptor(), POLLIN, 0};
  REQUIRE(pair.server.queue_pair->post_receive(1, pair.server.part(0, 64)));
  CHECK(pair.server.port->prepare_sleep());
  CHECK(::poll(&descriptor, 1, 0) == 0);
  const Work work = pair.requester.work(1, WorkKind::send, 10);
  REQUIRE(pair.requester.queue_pair->post({&work, 1}) == 1);
  pair.fabric.settle();
  CHECK(::poll(&descriptor, 1, 0) == 1);
  CHECK_FALSE(pair.server.port->prepare_sleep());
  CHECK(pair.server.poll().size() == 1);
  CHECK(pair.server.port->prepare_sleep());
  CHECK(::poll(&descriptor, 1, 0) == 0);
}

TEST_CASE("sim rdma: a run repeats itself from its seed") {
  const auto run = [](std::uint64_t seed) {
    Pair pair(seed);
    const Work work = pair.server.work(1, WorkKind::write, kBytes, pair.requester.remote());
    REQUIRE(pair.server.queue_pair->post({&work, 1}) == 1);
    std::vector<std::uint64_t> trace;
    for (int i = 0; i < 30; ++i) {
      pair.fabric.step();
      trace.push_back(pair.fabric.counters().written_bytes);
    }
    return trace;
  };
  CHECK(run(12) == run(12));
  CHECK(run(12) != run(13));
}

TEST_CASE("sim rdma: limits of a device") {
  SimDeviceConfig config;
  config.registered_bytes_max = 2 * kBytes;
  config.queue_pairs_max = 1;
  Pair pair(14, config);
  CHECK(pair.server.device->register_memory({pair.server.own.data(), 1}, RemoteAccess::none)
            .status() == Status::out_of_memory);
  CHECK(pair.server.device->register_memory({nullptr, 1, 0}, RemoteAccess::none).status() ==
        Status::unsupported);
  CHECK(pair.server.port->make_queue_pair({}).status() == Status::out_of_memory);
}

TEST_CASE("sim rdma: misuse aborts") {
  Pair pair(15);
  End& requester = pair.requester;
  const Work work = requester.work(1, WorkKind::send, 10);
  const auto post = [&](const Work& what, std::size_t count) {
    const std::vector<Work> works(count, what);
    static_cast<void>(requester.queue_pair->post(works));
  };
  CHECK_FALSE(aborts([&] { post(work, 64); }));
  CHECK(aborts([&] { post(work, 65); }));
  Work wrong = work;
  wrong.parts[0].key += 1;
  CHECK(aborts([&] { post(wrong, 1); }));
  wrong = work;
  wrong.parts[0].at += kBytes - 9;
  CHECK(aborts([&] { post(wrong, 1); }));
  CHECK(aborts([&] {
    requester.queue_pair->destroy();
    post(work, 1);
  }));
  CHECK(aborts([&] {
    post(work, 1);
    requester.own_registration.reset();
    pair.fabric.settle();
  }));
  CHECK(aborts([&] { static_cast<void>(requester.queue_pair->connect({})); }));
}

}  // namespace sim_rdma_fabric_test
