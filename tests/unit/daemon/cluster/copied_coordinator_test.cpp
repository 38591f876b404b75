#include "daemon/cluster/copied_coordinator.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

namespace copied_coordinator_test {

using namespace simm;
using cluster::StoredState;

// One in memory that can be made to fail.
struct Kept final : cluster::Coordinator {
  Expected<std::optional<StoredState>> load() override {
    if (failure) return *failure;
    return state;
  }
  Outcome store(base::Epoch expected, const StoredState& next) override {
    if (failure) return *failure;
    if ((state ? state->epoch : 0) != expected) return Error{Status::invalid_state, "other"};
    state = next;
    return Done{};
  }
  std::optional<StoredState> state;
  std::optional<Error> failure;
};

StoredState state_of(base::Epoch epoch) {
  return {epoch, {std::byte{1}, static_cast<std::byte>(epoch)}};
}

struct Scene {
  Kept first;
  Kept copy;
  std::vector<std::string> failures;
  cluster::CopiedCoordinator both{first, copy,
                                  [this](const Error& why) { failures.push_back(why.context); }};
};

TEST_CASE("copied coordinator: one that begins empty gets what the copy has") {
  Scene scene;
  CHECK_FALSE(scene.both.load()->has_value());
  scene.copy.state = state_of(7);
  CHECK(scene.both.load()->value() == state_of(7));
  CHECK(scene.first.state == state_of(7));
  // What the first has decides from then on.
  scene.first.state = state_of(9);
  CHECK(scene.both.load()->value() == state_of(9));
}

TEST_CASE("copied coordinator: the copy follows, also one that is old; its failures stop nothing") {
  Scene scene;
  REQUIRE(scene.both.store(0, state_of(3)).has_value());
  CHECK(scene.copy.state == state_of(3));
  scene.first.state = state_of(10);  // by another manager
  REQUIRE(scene.both.store(10, state_of(11)).has_value());
  CHECK(scene.copy.state == state_of(11));
  CHECK(scene.both.store(10, state_of(12)).status() == Status::invalid_state);
  CHECK(scene.copy.state == state_of(11));
  scene.copy.failure = Error{Status::io_error, "no room"};
  REQUIRE(scene.both.store(11, state_of(12)).has_value());
  CHECK(scene.failures == std::vector<std::string>{"no room"});
}

TEST_CASE("copied coordinator: what can not be read is not taken for empty") {
  Scene scene;
  scene.copy.state = state_of(7);
  scene.first.failure = Error{Status::unreachable, "away"};
  CHECK(scene.both.load().status() == Status::unreachable);
  scene.first.failure.reset();
  scene.copy.failure = Error{Status::corrupt, "torn"};
  CHECK(scene.both.load().status() == Status::corrupt);
  CHECK_FALSE(scene.first.state.has_value());
}

}  // namespace copied_coordinator_test
