// The suite of the Coordinator seam: every implementation runs it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <random>

#include "tests/conformance/coordinator_world.h"

namespace conformance {

std::vector<CoordinatorFactory>& coordinators() {
  static std::vector<CoordinatorFactory> all;
  return all;
}

}  // namespace conformance

namespace coordinator_test {

using namespace conformance;
using simm::Status;
using simm::cluster::Coordinator;
using simm::cluster::StoredState;

StoredState state_of(simm::base::Epoch epoch, std::size_t bytes = 100) {
  StoredState state;
  state.epoch = epoch;
  for (std::size_t i = 0; i < bytes; ++i) {
    state.bytes.push_back(static_cast<std::byte>(epoch * 31 + i));
  }
  return state;
}

void each(const std::function<void(CoordinatorWorld&)>& body) {
  REQUIRE(coordinators().size() >= 2);
  for (const CoordinatorFactory& factory : coordinators()) {
    SUBCASE(factory.name.c_str()) {
      const auto world = factory.make();
      body(*world);
    }
  }
}

}  // namespace coordinator_test

TEST_CASE("coordinator: nothing stored is not an error, and no value") {
  using namespace coordinator_test;
  each([](CoordinatorWorld& world) {
    const auto loaded = world.restart().load();
    REQUIRE(loaded);
    CHECK_FALSE(loaded->has_value());
  });
}

TEST_CASE("coordinator: what was stored is there for the next manager, bit for bit") {
  using namespace coordinator_test;
  each([](CoordinatorWorld& world) {
    const std::size_t sizes[] = {0, 1, 4096, simm::cluster::kStateBytesMax};
    simm::base::Epoch epoch = 0;
    for (const std::size_t bytes : sizes) {
      const StoredState state = state_of(epoch + 10, bytes);
      REQUIRE(world.restart().store(epoch, state));
      epoch += 10;
      const auto loaded = world.restart().load();
      REQUIRE(loaded);
      REQUIRE(loaded->has_value());
      CHECK(**loaded == state);
    }
  });
}

TEST_CASE("coordinator: a store that expects another epoch than is there changes nothing") {
  using namespace coordinator_test;
  each([](CoordinatorWorld& world) {
    Coordinator& coordinator = world.restart();
    CHECK(coordinator.store(3, state_of(4)).status() == Status::invalid_state);
    REQUIRE(coordinator.store(0, state_of(5)));
    CHECK(coordinator.store(0, state_of(6)).status() == Status::invalid_state);
    CHECK(coordinator.store(4, state_of(6)).status() == Status::invalid_state);
    CHECK(coordinator.store(6, state_of(7)).status() == Status::invalid_state);
    CHECK(**coordinator.load() == state_of(5));
    REQUIRE(coordinator.store(5, state_of(6)));
    CHECK(**coordinator.load() == state_of(6));
  });
}

TEST_CASE("coordinator: an epoch never stands still and never goes back") {
  using namespace coordinator_test;
  each([](CoordinatorWorld& world) {
    Coordinator& coordinator = world.restart();
    CHECK(coordinator.store(0, state_of(0)).status() == Status::invalid_argument);
    REQUIRE(coordinator.store(0, state_of(5)));
    CHECK(coordinator.store(5, state_of(5)).status() == Status::invalid_argument);
    CHECK(coordinator.store(5, state_of(4)).status() == Status::invalid_argument);
    CHECK(coordinator.store(5, state_of(6, simm::cluster::kStateBytesMax + 1)).status() ==
          Status::invalid_argument);
    CHECK(**coordinator.load() == state_of(5));
  });
}

TEST_CASE("coordinator: after a loss it is empty, and starts over only from nothing") {
  using namespace coordinator_test;
  each([](CoordinatorWorld& world) {
    REQUIRE(world.restart().store(0, state_of(5)));
    world.lose();
    Coordinator& coordinator = world.restart();
    CHECK_FALSE(coordinator.load()->has_value());
    CHECK(coordinator.store(5, state_of(6)).status() == Status::invalid_state);
    CHECK(coordinator.store(0, state_of(6)));
  });
}

TEST_CASE("coordinator: random stores and restarts against a model") {
  using namespace coordinator_test;
  const char* const chosen = std::getenv("SIMM_SEED");
  const std::uint64_t seed = chosen ? std::strtoull(chosen, nullptr, 10) : std::random_device{}();
  INFO("repeat with: SIMM_SEED=" << seed << " conformance -tc='coordinator: random*'");
  each([&](CoordinatorWorld& world) {
    std::mt19937_64 random(seed);
    std::optional<StoredState> model;
    Coordinator* coordinator = &world.restart();
    for (int step = 0; step < 200; ++step) {
      const simm::base::Epoch there = model ? model->epoch : 0;
      const simm::base::Epoch expected = there + random() % 3 - std::min<std::uint64_t>(there, 1);
      const StoredState next = state_of(there + random() % 4, random() % 3000);
      const simm::Outcome stored = coordinator->store(expected, next);
      REQUIRE(stored.has_value() == (expected == there && next.epoch > expected));
      if (stored) model = next;
      if (random() % 8 == 0) coordinator = &world.restart();
      REQUIRE(*coordinator->load() == model);
    }
  });
}
