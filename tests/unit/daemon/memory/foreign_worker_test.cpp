#include "daemon/memory/helper/foreign_worker.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "daemon/memory/helper/adopt_client.h"
#include "daemon/memory/helper/adopt_helper.h"
#include "daemon/memory/helper/foreign_job.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"
#include "tests/unit/daemon/memory/arena_file.h"
#include "tests/unit/daemon/memory/forked_client.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace foreign_worker_test {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::ipc::FdSocket;
using simm::ipc::Mapping;
using simm::ipc::UniqueFd;

constexpr std::uint64_t kArenaBytes = 16 << 20;
constexpr std::uint64_t kClientBytes = 12 << 20;

bool is_canary(const Mapping& mapping, std::uint64_t from) {
  // All are the first one: fast under sanitizers, too.
  const std::byte* const first = mapping.data() + from;
  return *first == kArenaCanary && std::memcmp(first, first + 1, mapping.bytes() - from - 1) == 0;
}

// A worker without a ForeignCopier before it, so that any job can be sent.
struct RawWorker {
  UniqueFd bounce_file = plain_memfd(kBounceBytes);
  Mapping bounce = map_canaries(bounce_file.get(), kBounceBytes);
  ArenaFile arena{kArenaBytes};
  FdSocket jobs;
  UniqueFd pidfd;

  RawWorker(AdoptClient& helper, const ForkedClient& client,
            std::uint64_t arena_bytes = kArenaBytes) {
    auto pair = FdSocket::pair();
    REQUIRE(pair);
    jobs = std::move(pair->first);
    auto spawned = helper.spawn_worker(
        *client.identity, {pair->second.fd(), bounce_file.get(), arena.foreign().fd, arena_bytes});
    REQUIRE(spawned);
    pidfd = std::move(spawned->pidfd);
  }
  void send(const ForeignJob& job) {
    bounce_slot(bounce.data(), job.slot % kForeignSlots).state = 1;
    REQUIRE(jobs.try_send(std::as_bytes(std::span(&job, 1))) == simm::ipc::SocketResult::done);
  }
  // ok or failed, or claimed when the worker has ended instead.
  PieceSlotState wait(std::uint32_t slot) {
    for (;;) {
      const bool is_alive = simm::ipc::pidfd_is_alive(pidfd.get());
      const auto state = static_cast<PieceSlotState>(bounce_slot(bounce.data(), slot).state.load());
      if (state != PieceSlotState::claimed || !is_alive) return state;
      ::usleep(50);
    }
  }
};

struct World {
  std::optional<AdoptClient> helper;
  pid_t pid = -1;
  char* memory = map_anonymous(kClientBytes, MAP_SHARED);  // the client's, so that the test sees it
  ForkedClient client;

  World() : client(client_spec(memory)) {
    HelperOptions options;
    options.foreign = true;
    auto started = start_adopt_helper(options);
    REQUIRE(started);
    helper.emplace(std::move(started->socket));
    pid = started->pid;
  }
  ~World() {
    helper.reset();
    ::waitpid(pid, nullptr, 0);
    ::munmap(memory, kClientBytes);
  }
  [[nodiscard]] bool client_is(std::uint64_t from, std::uint64_t length, char value) const {
    return memory[from] == value && std::memcmp(memory + from, memory + from + 1, length - 1) == 0;
  }
  static ForkedClientSpec client_spec(char* memory) {
    ForkedClientSpec spec;
    spec.set_up = [memory] {
      std::memset(memory, 'c', kClientBytes);
      return report_of(memory, kClientBytes);
    };
    return spec;
  }
};

}  // namespace foreign_worker_test

TEST_CASE("the worker refuses a job outside of the arena or of its bounce buffer, and ends") {
  using namespace foreign_worker_test;
  if (!is_root()) return;
  World world;
  const std::uint64_t client = world.client.address();
  constexpr std::uint64_t kTop = ~std::uint64_t{0};
  const ForeignJob unsound[] = {
      {kReadSlots, 0, client, 4096, kArenaBytes},             // begins behind the end
      {kReadSlots, 0, client, 4096, kArenaBytes - 4095},      // ends behind it, by a byte
      {kReadSlots, 0, client, 4096, kTop - 4095},             // before the begin, by wrap-around
      {kReadSlots, 0, client, 4096, kTop - 2047},             // wraps around in the middle
      {kForeignSlots - 1, 0, client, kWriteBytesMax + 1, 0},  // longer than any piece
      {kReadSlots, 0, client, kTop, 1},                       //
      {kReadSlots, 0, client, 0, 0},                          // nothing at all
      {kForeignSlots, 0, client, 4096, 0},                    // no such slot
      {~0u, 0, client, 4096, 0},                              //
      {0, 0, client, 0, 0},                                   //
      {0, 0, client, kReadBytesMax + 1, 0},                   // longer than a bounce buffer
      {kReadSlots - 1, 0, client, kReadBytesMax + 1, 0}};
  for (const ForeignJob& job : unsound) {
    CAPTURE(job.slot);
    CAPTURE(job.length);
    CAPTURE(job.arena_offset);
    RawWorker worker(*world.helper, world.client);
    worker.send(job);
    CHECK(worker.wait(job.slot % kForeignSlots) == PieceSlotState::claimed);
    CHECK_FALSE(simm::ipc::pidfd_is_alive(worker.pidfd.get()));
    CHECK(is_canary(worker.arena.mapping, 0));
    CHECK(is_canary(worker.bounce, kBounceHeaderBytes));
  }
  CHECK(world.client_is(0, kClientBytes, 'c'));
}

TEST_CASE("a sound job touches its buffer or its place in the client, and not a byte beside it") {
  using namespace foreign_worker_test;
  if (!is_root()) return;
  World world;
  const std::uint64_t client = world.client.address();
  RawWorker worker(*world.helper, world.client);
  worker.send({0, 0, client, kReadBytesMax, 0});
  CHECK(worker.wait(0) == PieceSlotState::ok);
  CHECK(is_canary(worker.bounce, kBounceHeaderBytes + kReadBytesMax));
  CHECK(*bounce_bytes(worker.bounce.data(), 0) == std::byte{'c'});
  CHECK(bounce_bytes(worker.bounce.data(), 1)[-1] == std::byte{'c'});
  // The last bytes of the arena.
  worker.send({kReadSlots, 0, client + 4097, 4096, kArenaBytes - 4096});
  CHECK(worker.wait(kReadSlots) == PieceSlotState::ok);
  CHECK(world.client_is(0, 4097, 'c'));
  CHECK(world.client_is(4097, 4096, static_cast<char>(kArenaCanary)));
  CHECK(world.client_is(4097 + 4096, kClientBytes - 4097 - 4096, 'c'));
  CHECK(is_canary(worker.arena.mapping, 0));
}

TEST_CASE("a worker that was given something else than an arena ends before it copies") {
  using namespace foreign_worker_test;
  if (!is_root()) return;
  World world;
  RawWorker worker(*world.helper, world.client, 0);
  while (simm::ipc::pidfd_is_alive(worker.pidfd.get())) ::usleep(50);
  CHECK(is_canary(worker.bounce, kBounceHeaderBytes));
}

TEST_CASE("a bad address of the client fails its job and nothing else") {
  using namespace foreign_worker_test;
  if (!is_root()) return;
  World world;
  RawWorker worker(*world.helper, world.client);
  for (const std::uint64_t address :
       {std::uint64_t{0}, ~std::uint64_t{0} - 4095, std::uint64_t{1} << 47}) {
    for (const std::uint32_t slot : {0u, kReadSlots}) {
      worker.send({slot, 0, address, 4096, 0});
      CHECK(worker.wait(slot) == PieceSlotState::failed);
    }
  }
  worker.send({0, 0, world.client.address(), 4096, 0});
  CHECK(worker.wait(0) == PieceSlotState::ok);
  CHECK(is_canary(worker.arena.mapping, 0));
}
