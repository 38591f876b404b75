// Who sends next on a link: tenants by bytes, the requests of each in order.
#include "daemon/transport/tenant_turns.h"

#include <doctest/doctest.h>

#include <vector>

namespace simm::transport {
namespace {

constexpr base::TenantId kRed{1};
constexpr base::TenantId kBlue{2};
constexpr base::TenantId kGreen{3};  // with the weight 3
constexpr std::uint32_t kQuantum = 112 * 1024;

struct TenantTurnsFixture {
  base::TenantWeights weights{{{kGreen, 3}}};
  TenantTurns turns{32, kQuantum, weights};

  // One turn of `bytes`; the slot waits again if it shall.
  std::uint32_t take(std::uint64_t bytes, const base::TenantId* again = nullptr) {
    const std::uint32_t slot = turns.pop();
    if (again != nullptr) turns.push(slot, *again);
    turns.end_turn(bytes);
    return slot;
  }
};

}  // namespace

TEST_CASE_FIXTURE(TenantTurnsFixture, "the requests of one tenant go round in order") {
  for (std::uint32_t slot = 0; slot < 3; ++slot) turns.push(slot, kRed);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(take(kQuantum, &kRed));
  CHECK(order == std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2});
  for (int i = 0; i < 3; ++i) (void)take(0);
  CHECK(turns.empty());
}

TEST_CASE_FIXTURE(TenantTurnsFixture, "one request of a tenant waits for one turn of another one") {
  for (std::uint32_t slot = 0; slot < 30; ++slot) turns.push(slot, kRed);
  (void)take(kQuantum, &kRed);
  turns.push(30, kBlue);
  std::uint64_t red_bytes = 0;
  std::uint64_t blue_bytes = 0;
  while (blue_bytes < 2 * kQuantum) {
    const std::uint32_t slot = turns.pop();
    const bool is_blue = slot == 30;
    const std::uint64_t bytes = is_blue ? kQuantum / 4 : kQuantum;
    turns.push(slot, is_blue ? kBlue : kRed);
    turns.end_turn(bytes);
    (is_blue ? blue_bytes : red_bytes) += bytes;
  }
  CHECK(red_bytes <= 3 * kQuantum);
}

TEST_CASE_FIXTURE(TenantTurnsFixture, "who can not go on lets others go on") {
  for (std::uint32_t slot = 0; slot < 8; ++slot) turns.push(slot, kRed);
  turns.push(8, kBlue);
  const std::uint32_t stuck = turns.pop();
  CHECK(stuck == 0);
  turns.push(stuck, kRed);
  turns.end_turn(0, true);
  CHECK(take(0) == 8);
}

TEST_CASE_FIXTURE(TenantTurnsFixture,
                  "each request may be of a tenant of its own; cleared, all is as new") {
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t slot = 0; slot < 32; ++slot) turns.push(slot, base::TenantId{slot + 1});
    CHECK(turns.size() == 32);
    // The one whose turn it is leaves its line empty until the turn ends.
    const std::uint32_t slot = turns.pop();
    turns.push(slot, base::TenantId{100});
    turns.end_turn(3 * kQuantum);
    for (int i = 0; i < 16; ++i) (void)take(kQuantum);
    CHECK(turns.size() == 16);
    turns.clear();
    CHECK(turns.empty());
  }
}

TEST_CASE_FIXTURE(TenantTurnsFixture, "turns are by weight, whatever the length of steps") {
  for (const std::uint64_t step_bytes : {kQuantum / 8, kQuantum, 3 * kQuantum}) {
    for (std::uint32_t slot = 0; slot < 4; ++slot) turns.push(slot, slot < 2 ? kRed : kGreen);
    std::uint64_t red_bytes = 0;
    std::uint64_t green_bytes = 0;
    for (int i = 0; i < 4000; ++i) {
      const std::uint32_t slot = turns.pop();
      const bool is_red = slot < 2;
      turns.push(slot, is_red ? kRed : kGreen);
      turns.end_turn(step_bytes);
      (is_red ? red_bytes : green_bytes) += step_bytes;
    }
    CHECK(static_cast<double>(green_bytes) / static_cast<double>(red_bytes) ==
          doctest::Approx(3).epsilon(0.02));
    turns.clear();
  }
}

TEST_CASE_FIXTURE(TenantTurnsFixture, "many short steps are not free") {
  for (std::uint32_t slot = 0; slot < 2; ++slot) turns.push(slot, slot == 0 ? kRed : kBlue);
  std::uint32_t red_steps = 0;
  while (turns.pop() == 0) {
    turns.push(0, kRed);
    turns.end_turn(16);
    ++red_steps;
  }
  CHECK(red_steps == kQuantum / kStepCostBytes);
  turns.end_turn(0);
}

}  // namespace simm::transport
