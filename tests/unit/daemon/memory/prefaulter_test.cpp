#include "daemon/memory/prefaulter.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace simm::memory::testing {
namespace prefault {

// Of another process's view as well, as the pool's is; not one page is present.
struct SharedMemory {
  explicit SharedMemory(std::size_t length, int protection = PROT_READ | PROT_WRITE)
      : bytes(map(length, protection), length) {}
  ~SharedMemory() { ::munmap(bytes.data(), bytes.size()); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  static std::byte* map(std::size_t length, int protection) {
    constexpr int kFlags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const mapped = ::mmap(nullptr, length, protection, kFlags, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    return static_cast<std::byte*>(mapped);
  }

  const std::span<std::byte> bytes;
};

std::uint64_t resident_bytes(std::span<std::byte> memory) {
  std::vector<unsigned char> pages(memory.size() / 4096);
  REQUIRE(::mincore(memory.data(), memory.size(), pages.data()) == 0);
  std::uint64_t bytes = 0;
  for (const unsigned char page : pages) bytes += (page & 1U) * std::uint64_t{4096};
  return bytes;
}

}  // namespace prefault

TEST_CASE("prefaulted pages are there, hold what they held, and every tenth is reported once") {
  const prefault::SharedMemory shared(Prefaulter::kPieceBytes * 3 + 8192);
  const std::span<std::byte> memory = shared.bytes;
  memory[5] = std::byte{42};
  base::CounterSet counters;
  std::vector<PrefaultProgress> reports;  // under the prefaulter's own lock
  Prefaulter prefaulter(memory, 1, counters.counter("done"),
                        [&reports](const PrefaultProgress& now) { reports.push_back(now); });
  REQUIRE(prefaulter.start(2));
  prefaulter.wait();
  CHECK(prefault::resident_bytes(memory) == memory.size());
  CHECK(memory[5] == std::byte{42});
  CHECK(memory[memory.size() - 1] == std::byte{0});
  CHECK(counters.value("done") == memory.size());
  REQUIRE_FALSE(reports.empty());
  CHECK(reports.size() <= 10);
  for (std::size_t i = 1; i < reports.size(); ++i) {
    CHECK(reports[i].done_bytes > reports[i - 1].done_bytes);
  }
  CHECK(reports.back().done_bytes == memory.size());
  CHECK(reports.back().bytes == memory.size());
  CHECK(reports.back().failure == 0);
}

TEST_CASE("shards have their turns: the beginnings of all are there before the end of one") {
  constexpr std::size_t kShardPieces = 6;
  const prefault::SharedMemory shared(Prefaulter::kPieceBytes * kShardPieces * 2);
  Prefaulter* stopped = nullptr;
  Prefaulter prefaulter(shared.bytes, 2, base::Counter(),
                        [&](const PrefaultProgress&) { stopped->request_stop(); });
  stopped = &prefaulter;
  REQUIRE(prefaulter.start(1));
  prefaulter.wait();
  // It is stopped after two pieces, as above.
  constexpr std::size_t kShardBytes = Prefaulter::kPieceBytes * kShardPieces;
  const auto of_shard = [&](std::size_t shard) {
    return prefault::resident_bytes(shared.bytes.subspan(shard * kShardBytes, kShardBytes));
  };
  CHECK(of_shard(0) == Prefaulter::kPieceBytes);
  CHECK(of_shard(1) == Prefaulter::kPieceBytes);
}

TEST_CASE("a prefaulter that is stopped leaves the rest undone") {
  const prefault::SharedMemory shared(Prefaulter::kPieceBytes * 12);
  const std::span<std::byte> memory = shared.bytes;
  Prefaulter* stopped = nullptr;
  int reports = 0;
  Prefaulter prefaulter(memory, 1, base::Counter(), [&](const PrefaultProgress&) {
    ++reports;
    stopped->request_stop();
  });
  stopped = &prefaulter;
  REQUIRE(prefaulter.start(1));
  prefaulter.wait();
  // A tenth is more than one piece here and less than two.
  CHECK(prefault::resident_bytes(memory) == Prefaulter::kPieceBytes * 2);
  CHECK(reports == 1);
}

TEST_CASE("memory that the kernel refuses ends the prefaulting with its reason") {
  // Nothing can be written there, so there is no page to make present.
  const prefault::SharedMemory shared(Prefaulter::kPieceBytes * 4, PROT_NONE);
  std::vector<PrefaultProgress> reports;
  {
    Prefaulter prefaulter(shared.bytes, 1, base::Counter(),
                          [&reports](const PrefaultProgress& now) { reports.push_back(now); });
    REQUIRE(prefaulter.start(3));
    prefaulter.wait();
  }
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].failure != 0);
  CHECK(reports[0].done_bytes == 0);
}

}  // namespace simm::memory::testing
