// Foreign copies whose client makes them hang, dies, or turns into somebody else.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/base/hash.h"
#include "daemon/transport/region_mover.h"
#include "tests/hostile/memory/attacked_daemon.h"
#include "tests/hostile/memory/hanging_client.h"
#include "tests/hostile/memory/test_arena.h"
#include "tests/support/temporary_directory.h"

namespace foreign_attack {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Status;
using Kind = simm::ipc::RegionRequestKind;
namespace transport = simm::transport;

constexpr std::uint64_t kBytes = 64 * kPage;

ForkedClientSpec honest_client() {
  ForkedClientSpec spec;
  spec.set_up = [] {
    char* const memory = map_anonymous(kBytes, MAP_PRIVATE);
    std::memset(memory, 'h', kBytes);
    return report_of(memory, kBytes);
  };
  return spec;
}

struct RunningMove {
  simm::base::PayloadDigest stream;
  std::byte* own;
  transport::Move move;
  RunningMove(const RegionMemory& memory, std::byte* bytes, transport::MoveDirection direction)
      : own(bytes) {
    move.slice = whole(memory);
    move.memory = own;
    move.length = kBytes;
    move.direction = direction;
    move.digest_wanted = true;
    move.stream = &stream;
  }
};

// Steps until the move is over.
Status finish(RunningMove& running, transport::Mover& mover) {
  while (mover.step(running.move, 1 << 20) != transport::MoveProgress::done) ::usleep(20);
  return running.move.status;
}

}  // namespace foreign_attack

TEST_CASE("a copy that its client hangs, beyond its own death, ends at the fence; others go on") {
  using namespace foreign_attack;
  if (!is_root()) return;
  SharedKeeper keeper;
  TestArena arena;
  AttackedDaemon beside(true, 64 << 20, arena.foreign());
  ForkedClient honest(honest_client());
  auto good = beside.make(honest, Kind::foreign);
  REQUIRE(good);

  transport::RegionMover mover;
  for (const auto direction : {transport::MoveDirection::in, transport::MoveDirection::out}) {
    AttackedDaemon attacked(true, 64 << 20, arena.foreign());
    keeper->has_fault = false;
    ForkedClient hanging(hanging_client(keeper, kBytes, 0));
    if (hanging.length() == 0) {
      MESSAGE("skipped: no userfaultfd on this machine");
      break;
    }
    auto bad = attacked.make(hanging, Kind::automatic);
    REQUIRE(bad);
    CHECK(bad->kind == Kind::foreign);
    CHECK(contains(bad->reason, "rw-s"));
    RunningMove stuck(*bad->memory, arena.at(0), direction);
    // A thousand turns, and moves of the honest client all the while: none of them waits.
    for (int turn = 0; turn < 1000; ++turn) {
      REQUIRE(mover.step(stuck.move, 1 << 20) == transport::MoveProgress::waiting);
      if (turn % 100 != 0) continue;
      RunningMove fine(*good->memory, arena.at(kBytes), direction);
      REQUIRE(finish(fine, mover) == Status::ok);
    }
    // The client dies only when the copy hangs: before, the worker would just refuse it.
    for (int turn = 0; !keeper->has_fault; ++turn) {
      REQUIRE(mover.step(stuck.move, 1 << 20) == transport::MoveProgress::waiting);
      REQUIRE(turn < 100'000);
      ::usleep(100);
    }
    hanging.end();
    ::usleep(20'000);
    CHECK(mover.step(stuck.move, 1 << 20) == transport::MoveProgress::waiting);
    int turns = 0;
    while (!mover.stop(stuck.move)) {
      ::usleep(100);
      REQUIRE(++turns < 100'000);
    }
    attacked.registrar->maintain();  // no new worker for a dead client, and no harm in asking
    RunningMove again(*bad->memory, arena.at(0), direction);
    CHECK(finish(again, mover) == Status::unreachable);
    keeper.end();
  }
  RunningMove after(*good->memory, arena.at(0), transport::MoveDirection::in);
  CHECK(finish(after, mover) == Status::ok);
  CHECK(after.move.digest == simm::base::payload_digest(after.own, kBytes));
}

TEST_CASE("a client that turns into a program of another user is out of reach") {
  using namespace foreign_attack;
  if (!is_root()) return;
  // The client registers a region, executes a program with the same pid, and whoever shares its
  // rings asks for bytes of that program.
  const auto attempt = [](mode_t mode) {
    const auto directory = simm::test_support::TemporaryDirectory::for_all_users();
    const std::string program = directory / "sleep";
    std::filesystem::copy_file("/bin/sleep", program);
    REQUIRE(::chmod(program.c_str(), mode) == 0);
    ForkedClientSpec spec = honest_client();
    spec.command = [&](char) { ::execl(program.c_str(), "sleep", "1000", nullptr); };
    TestArena arena;
    AttackedDaemon daemon(true, 64 << 20, arena.foreign());
    ForkedClient client(spec);
    auto first = daemon.make(client, Kind::foreign);
    REQUIRE(first);
    transport::RegionMover mover;
    RunningMove before(*first->memory, arena.at(0), transport::MoveDirection::in);
    REQUIRE(finish(before, mover) == Status::ok);
    REQUIRE(before.own[0] == std::byte{'h'});

    client.tell('e');
    const std::string maps = "/proc/" + std::to_string(client.pid()) + "/maps";
    std::string line;
    for (int i = 0; i < 300'000 && line.find(program) == line.npos; ++i) {
      ::usleep(100);
      line.clear();
      std::ifstream file(maps);
      std::getline(file, line);
    }
    REQUIRE(line.find(program) != line.npos);
    simm::ipc::RegisterRegion request{
        2, Kind::foreign, std::stoull(line, nullptr, 16), kPage, 0, false, "program"};
    RegionOwner owner{*client.identity, daemon.pins, daemon.touches, daemon.copier};
    auto second = daemon.registrar->make(owner, request, {});
    REQUIRE(second);
    RunningMove after(*second->memory, arena.at(0), transport::MoveDirection::in);
    after.move.length = kPage;
    return finish(after, mover);
  };
  CHECK(attempt(0755) == Status::ok);  // a program of its own user: its own memory
  CHECK(attempt(04755) == Status::transfer_failed);
}
