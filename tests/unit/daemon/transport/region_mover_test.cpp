#include "daemon/transport/region_mover.h"

#include <unistd.h>

#include <cstdlib>
#include <random>

#include "daemon/base/hash.h"
#include "daemon/base/random.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/memory/stream_copy.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace region_mover_test {

using namespace local_world;

constexpr std::uint64_t kBytes = 3ull << 20;

void fill_random(std::byte* bytes, std::uint64_t length, base::SeededRandom& random) {
  for (std::uint64_t at = 0; at < length; ++at) bytes[at] = static_cast<std::byte>(random.next());
}

TEST_CASE("random moves: the bytes, their digest, and nothing beside them") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_transport -tc='random moves*'");
  memory::FaultGuard::install();
  base::SeededRandom random(seed);
  TestRegion client(kBytes);
  std::vector<std::byte> own(kBytes);
  base::PayloadDigest stream;
  RegionMover mover;
  fill_random(client.region.base, kBytes, random);
  for (int round = 0; round < 60; ++round) {
    const bool around_threshold = random.one_in(3);
    const std::uint64_t length = around_threshold
                                     ? memory::kStreamBytesMin - 3 + random.below(6)
                                     : 1 + random.below(random.one_in(2) ? 5000 : kBytes / 2);
    const bool inward = random.one_in(2);
    Move move;
    move.slice = {&client.region, random.below(kBytes - length - 1), length};
    const std::uint64_t own_at = 1 + random.below(kBytes - length - 1);
    move.memory = own.data() + own_at;
    move.length = length;
    move.direction = inward ? MoveDirection::in : MoveDirection::out;
    move.digest_wanted = inward || random.one_in(2);
    move.stream = &stream;
    std::byte* const slice = client.region.base + move.slice.offset;
    fill_random(inward ? slice : move.memory, std::min<std::uint64_t>(length, 4096), random);
    std::byte* const target = inward ? move.memory : slice;
    const std::byte before = target[-1 + (target == client.region.base ? 1 : 0)];
    const std::byte behind = target[length];
    const std::uint64_t step = 1 + random.below(300'000);
    MoveProgress progress = MoveProgress::running;
    for (int i = 0; i < 100'000 && progress == MoveProgress::running; ++i) {
      const std::uint64_t moved = move.moved;
      progress = mover.step(move, std::max(step, length / 50));
      CHECK(move.moved > moved);
    }
    CHECK(progress == MoveProgress::done);
    CHECK(move.status == Status::ok);
    CHECK(move.moved == length);
    CHECK(std::memcmp(slice, move.memory, length) == 0);
    if (move.digest_wanted) CHECK(move.digest == base::payload_digest(move.memory, length));
    if (target != client.region.base) CHECK(target[-1] == before);
    CHECK(target[length] == behind);
  }
}

TEST_CASE("memory that vanishes under a large move fails that move only") {
  memory::FaultGuard::install();
  // A file of 1 MiB behind a mapping of 2 MiB: the second half is SIGBUS.
  const int fd = ::memfd_create("short", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(::ftruncate(fd, 1 << 20) == 0);
  void* mapped = ::mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(mapped != MAP_FAILED);
  memory::Region region;
  region.base = static_cast<std::byte*>(mapped);
  region.length = 2 << 20;
  std::vector<std::byte> own(2 << 20);
  base::PayloadDigest stream;
  RegionMover mover;
  for (const MoveDirection direction : {MoveDirection::in, MoveDirection::out}) {
    for (const std::uint64_t length : {std::uint64_t{8192}, std::uint64_t{600'000}}) {
      Move move;
      move.slice = {&region, (1 << 20) - length / 2, length};
      move.memory = own.data();
      move.length = length;
      move.direction = direction;
      move.digest_wanted = true;
      move.stream = &stream;
      MoveProgress progress = MoveProgress::running;
      while (progress == MoveProgress::running) progress = mover.step(move, 100'000);
      CHECK(progress == MoveProgress::done);
      CHECK(move.status == Status::transfer_failed);
      move.slice.offset = (1 << 20) - length;  // all there
      move.moved = 0;
      progress = MoveProgress::running;
      while (progress == MoveProgress::running) progress = mover.step(move, 100'000);
      CHECK(move.status == Status::ok);
    }
  }
  ::munmap(mapped, 2 << 20);
  ::close(fd);
}

}  // namespace region_mover_test
