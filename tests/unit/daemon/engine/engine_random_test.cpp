// Random scripts against an engine: answers, fences, silence, credits, epochs, in any order.
// Repeat one run with SIMM_SEED=<seed>; SIMM_ROUNDS=<n> makes it longer.
#include <cstdlib>
#include <map>
#include <random>

#include "daemon/base/random.h"
#include "daemon/engine/engine.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/engine/engine_world.h"

namespace engine_random_test {

using namespace engine_world;
using base::kNsPerMs;
using ipc::Opcode;

using simm::test_support::number_from;
using simm::test_support::rounds_from;

struct Submitted {
  std::uint32_t pages = 0;
  base::TimeNs deadline_ns = 0;
};

// The answers a page may get, with the page's own index as its byte count where it is ok.
PageReply random_reply(base::SeededRandom& random, std::uint32_t index) {
  switch (random.below(8)) {
    case 0:
      return {Status::not_found, 0};
    case 1:
      return {Status::wrong_epoch, 0};
    case 2:
      return {Status::no_space, 0};
    default:
      return {Status::ok, index};
  }
}

struct Run {
  explicit Run(std::uint64_t seed)
      : random(seed),
        world(config(random), static_cast<std::uint16_t>(1 + random.below(6)),
              1 + static_cast<std::uint32_t>(random.below(3))) {
    world.requester.credits = 1 + static_cast<std::uint32_t>(random.below(20));
  }
  static engine::EngineConfig config(base::SeededRandom& random) {
    engine::EngineConfig config;
    config.operations = 1 + static_cast<std::uint32_t>(random.below(20));
    config.requests = 1 + static_cast<std::uint32_t>(random.below(30));
    config.pages_per_request_max = 1 + static_cast<std::uint32_t>(random.below(64));
    config.posts_per_turn = 1 + static_cast<std::uint32_t>(random.below(8));
    return config;
  }

  void submit() {
    if (world.engine->in_flight() == 20) return;
    const auto opcode = static_cast<Opcode>(1 + random.below(4));
    const auto pages = 1 + static_cast<std::uint32_t>(random.below(random.one_in(4) ? 300 : 8));
    const base::TimeNs timeout_ns = (1 + random.below(400)) * kNsPerMs;
    Operation* probe = world.engine->allocate();
    if (probe == nullptr) return;
    world.engine->release(*probe);
    Operation& operation = world.make(opcode, pages, timeout_ns);
    submitted[operation.client_token] = {pages, operation.header.deadline_ns};
    world.engine->submit(operation);
  }

  // Answers or fences one open post. A reset is always obeyed: transports fence within the grace.
  void act() {
    auto& posts = world.requester.posts;
    for (std::size_t i = first_open; i < posts.size(); ++i) {
      if (!posts[i].open) {
        if (i == first_open) ++first_open;
        continue;
      }
      const bool is_due = std::any_of(world.requester.due.begin(), world.requester.due.end(),
                                      [i](const auto& event) { return event.post == i; });
      if (is_due) continue;
      if (posts[i].resets > 0 || (posts[i].abandons > 0 && random.one_in(2))) {
        world.requester.fence(i, FenceCause::reset);
      } else if (random.one_in(10)) {
        world.requester.fence(i, FenceCause::collateral);
      } else if (random.one_in(6)) {
        std::vector<PageReply> replies;
        for (const auto& page : posts[i].request.pages) {
          replies.push_back(random_reply(random, page.index));
        }
        world.requester.reply(i, replies);
      }
    }
  }

  void check_outcomes() {
    for (; checked < world.outcomes.size(); ++checked) {
      const Completed& outcome = world.outcomes[checked];
      const auto found = submitted.find(outcome.client_token);
      REQUIRE(found != submitted.end());  // exactly once
      REQUIRE(outcome.pages.size() == found->second.pages);
      // P5, with the resolution of this test's steps.
      CHECK(outcome.at_ns <= found->second.deadline_ns + 100 * kNsPerMs);
      for (std::size_t page = 0; page < outcome.pages.size(); ++page) {
        if (outcome.pages[page].status == Status::ok) CHECK(outcome.pages[page].bytes == page);
      }
      submitted.erase(found);
    }
  }

  void go() {
    for (int step = 0; step < 1500; ++step) {
      const bool is_ending = step >= 800;
      if (!is_ending && random.one_in(3)) submit();
      if (random.one_in(40)) {
        world.placement.shards = static_cast<std::uint16_t>(1 + random.below(6));
        ++world.placement.epoch_now;
      }
      act();
      if (random.one_in(2)) world.clock.advance_ns(kNsPerMs);
      world.engine->do_work();
      check_outcomes();
    }
    CHECK(submitted.empty());
    CHECK(world.engine->in_flight() == 0);
    CHECK(world.requester.open_posts() == 0);
    CHECK(world.engine->next_deadline_ns() == base::kNoDeadline);
    CHECK(world.count("late_replies") == 0);
  }

  base::SeededRandom random;
  World world;
  std::map<std::uint64_t, Submitted> submitted;
  std::size_t checked = 0;
  std::size_t first_open = 0;
};

TEST_CASE("whatever transports do, every operation completes once, in time, with its own answers") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = rounds_from("SIMM_ROUNDS", 60);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    INFO("repeat: SIMM_SEED=" << seed + round << " SIMM_ROUNDS=1 unit_engine -tc='whatever*'");
    Run run(seed + round);
    run.go();
  }
}

}  // namespace engine_random_test
