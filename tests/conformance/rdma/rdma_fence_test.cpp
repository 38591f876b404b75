// destroy() is the fence: whatever is on its way, when it has returned no byte of memory changes
// any more for that queue pair. Many rounds, each at another moment: SIMM_ROUNDS.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "tests/conformance/rdma/rdma_ends.h"
#include "tests/support/number_from.h"

namespace rdma_conformance {
namespace {

constexpr std::byte kCanary{0xa5};
constexpr std::size_t kCanaryStride = 1024;
constexpr std::size_t kWorkBytes = 256 * 1024;
constexpr std::size_t kWorks = 16;
static_assert(kWorks * kWorkBytes <= kMemoryBytes);

// A byte of every packet that may come, and as fast as can be: a packet that is late by
// microseconds is one too many.
void set_canaries(std::vector<std::byte>& memory) {
  for (std::size_t at = 0; at < memory.size(); at += kCanaryStride) memory[at] = kCanary;
}

bool has_canaries(const std::vector<std::byte>& memory) {
  for (std::size_t at = 0; at < memory.size(); at += kCanaryStride) {
    if (memory[at] != kCanary) return false;
  }
  return true;
}

// The first byte that a work brings, as a device may change it meanwhile.
bool has_begun(std::vector<std::byte>& memory) {
  return std::atomic_ref(memory.front()).load(std::memory_order_acquire) != std::byte{0};
}

int rounds() {
  return static_cast<int>(simm::test_support::rounds_from("SIMM_ROUNDS", 60));
}

std::vector<Work> works_of(RdmaEnds& ends, WorkKind kind) {
  std::vector<Work> works;
  for (std::size_t i = 0; i < kWorks; ++i) {
    works.push_back(
        ends.server.work(i, kind, kWorkBytes, ends.requester.remote(i * kWorkBytes), false));
    works.back().parts[0] = ends.server.part(i * kWorkBytes, kWorkBytes);
  }
  return works;
}

// `struck`: the memory that the works change; `fenced`: the end it belongs to. Plays rounds(),
// and goes on until the works of at least `wanted` were still under way at their fence: how often
// a busy machine lets the device finish first is not known before.
void play_rounds(RdmaEnds& ends, WorkKind kind, std::vector<std::byte>& source,
                 std::vector<std::byte>& struck, RdmaEnd& fenced, int wanted) {
  int under_way = 0;
  int round = 0;
  for (; round < rounds() || under_way < wanted; ++round) {
    CAPTURE(round);
    std::fill(source.begin(), source.end(), std::byte{1});
    std::fill(struck.begin(), struck.end(), std::byte{0});
    const auto works = works_of(ends, kind);
    REQUIRE(ends.server.queue_pair->post(works) == works.size());
    REQUIRE(ends.turn_until([&] { return has_begun(struck); }));
    ends.turns(round % 4);
    if (round % 3 == 0) {
      fenced.queue_pair->fail();
      REQUIRE(ends.turn_until([&] { return fenced.queue_pair->try_destroy(); }));
    } else {
      fenced.queue_pair->destroy();
    }
    set_canaries(struck);
    const auto after = struck;
    under_way += std::count(after.begin(), after.end(), std::byte{0}) > 0 ? 1 : 0;
    const QueuePair* const gone = fenced.queue_pair.get();
    fenced.take();
    ends.turns(20);
    REQUIRE(has_canaries(struck));
    REQUIRE(struck == after);
    const auto ended = fenced.take();
    CHECK(std::none_of(ended.begin(), ended.end(),
                       [gone](const Completion& c) { return c.queue_pair == gone; }));
    ends.connect();
    // Nor does what was meant for the old queue pair reach the new one.
    ends.turns(5);
    REQUIRE(struck == after);
    ends.server.take();
    ends.requester.take();
  }
  MESSAGE(under_way << " of " << round << " rounds with works under way");
}

TEST_CASE("rdma fence: no WRITE of the other end touches memory after destroy()") {
  for (const RdmaWorldKind& kind : rdma_worlds(2)) {
    CAPTURE(kind.name);
    RdmaEnds ends(kind);
    play_rounds(ends, WorkKind::write, ends.server.own, ends.requester.open, ends.requester,
                std::max(1, rounds() / 10));
  }
}

TEST_CASE("rdma fence: no READ of its own touches memory after destroy()") {
  for (const RdmaWorldKind& kind : rdma_worlds(2)) {
    CAPTURE(kind.name);
    RdmaEnds ends(kind);
    play_rounds(ends, WorkKind::read, ends.requester.open, ends.server.own, ends.server,
                std::max(1, rounds() / 10));
  }
}

}  // namespace
}  // namespace rdma_conformance
