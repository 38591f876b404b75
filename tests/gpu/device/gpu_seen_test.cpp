// GpuSeen: which get of a piece is the node's second one, and who takes the piece in then.
#include "daemon/memory/gpu/gpu_seen.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace gpu_seen_test {

using simm::memory::gpu_name_print;
using simm::memory::GpuNodeSeen;
using simm::memory::GpuSeen;
using Turn = GpuSeen::Turn;

std::uint64_t print_of(std::uint64_t serial) {
  return gpu_name_print({1, serial, 0}, 1);
}

}  // namespace gpu_seen_test

TEST_CASE("gpu seen: the second get of the node takes a piece in, and only one tier does") {
  using namespace gpu_seen_test;
  const auto seen = std::make_unique<GpuSeen>();
  const std::uint64_t print = print_of(7);
  CHECK(seen->begin(print, true) == Turn::first);
  CHECK(seen->begin(print, true) == Turn::second);
  // That tier has not said yet that it has the piece: no other one begins as well.
  for (int time = 0; time < 3; ++time) CHECK(seen->begin(print, true) == Turn::neither);
  seen->end(print);
  // What has made way since is got twice again.
  CHECK(seen->begin(print, true) == Turn::first);
  CHECK(seen->begin(print, true) == Turn::second);
  seen->end(print);
}

TEST_CASE("gpu seen: a get by a GPU without a tier counts, and leaves the piece to one that has") {
  using namespace gpu_seen_test;
  const auto seen = std::make_unique<GpuSeen>();
  const std::uint64_t print = print_of(7);
  CHECK(seen->begin(print, false) == Turn::first);
  CHECK(seen->begin(print, false) == Turn::neither);
  CHECK(seen->begin(print, true) == Turn::second);
  CHECK(seen->begin(print, false) == Turn::neither);
  seen->end(print);
}

TEST_CASE("gpu seen: a get that was not queued did not happen") {
  using namespace gpu_seen_test;
  const auto seen = std::make_unique<GpuSeen>();
  const std::uint64_t print = print_of(7);
  for (int time = 0; time < 3; ++time) {
    const Turn turn = seen->begin(print, true);
    CHECK(turn == Turn::first);
    seen->undo(print, turn);
  }
  CHECK(seen->begin(print, true) == Turn::first);
  for (int time = 0; time < 3; ++time) {
    const Turn turn = seen->begin(print, true);
    CHECK(turn == Turn::second);
    seen->undo(print, turn);
  }
  CHECK(seen->begin(print, true) == Turn::second);
  seen->undo(print, Turn::neither);
  CHECK(seen->begin(print, true) == Turn::neither);
}

TEST_CASE("gpu seen: a tenant that gets more than any table holds drives out its own names alone") {
  using namespace gpu_seen_test;
  GpuNodeSeen node;
  const std::shared_ptr<GpuSeen> quiet = node.of(1);
  std::shared_ptr<GpuSeen> greedy = node.of(2);
  CHECK(node.of(1) == quiet);
  for (std::uint64_t serial = 0; serial < 1000; ++serial) {
    (void)quiet->begin(print_of(serial), true);
    (void)greedy->begin(print_of(serial), true);
  }
  for (std::uint64_t serial = 1000; serial < 9ull * GpuSeen::kCells; ++serial) {
    (void)greedy->begin(print_of(serial), true);
  }
  std::uint32_t quiet_seconds = 0;
  std::uint32_t greedy_seconds = 0;
  for (std::uint64_t serial = 0; serial < 1000; ++serial) {
    quiet_seconds += quiet->begin(print_of(serial), true) == Turn::second ? 1U : 0U;
    greedy_seconds += greedy->begin(print_of(serial), true) == Turn::second ? 1U : 0U;
  }
  CHECK(quiet_seconds > 990);  // but those that met one another
  CHECK(greedy_seconds < 10);
  // Who has gone keeps no table.
  const std::weak_ptr<GpuSeen> gone = greedy;
  greedy.reset();
  CHECK(gone.expired());
  CHECK(node.of(2)->begin(print_of(0), true) == Turn::first);
}

TEST_CASE("gpu seen: of agents that get a piece at once, one takes it in") {
  using namespace gpu_seen_test;
  const auto seen = std::make_unique<GpuSeen>();
  constexpr std::uint32_t kRounds = 20'000;
  constexpr std::uint32_t kAgents = 4;
  std::array<std::atomic<std::uint32_t>, 3> turns{};
  std::vector<std::thread> agents;
  for (std::uint32_t agent = 0; agent < kAgents; ++agent) {
    agents.emplace_back([&] {
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        // Names that do not meet.
        ++turns[static_cast<std::size_t>(seen->begin(round << 8 | std::uint64_t{9} << 40, true))];
      }
    });
  }
  for (std::thread& agent : agents) agent.join();
  CHECK(turns[static_cast<std::size_t>(Turn::first)] == kRounds);
  CHECK(turns[static_cast<std::size_t>(Turn::second)] == kRounds);
  CHECK(turns[static_cast<std::size_t>(Turn::neither)] == (kAgents - 2) * kRounds);
}
