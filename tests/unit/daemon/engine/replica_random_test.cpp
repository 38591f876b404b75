// Random scripts against an engine that keeps objects twice: owners that answer anything, leave,
// are silent, under maps that come and go. Repeat one run with SIMM_SEED=<seed>.
#include <random>
#include <set>

#include "daemon/base/random.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/engine/replica_world.h"

namespace replica_random_test {

using namespace replica_world;
using simm::test_support::number_from;
using simm::test_support::rounds_from;

constexpr Status kNobody = Status::invalid_state;  // what no answer of this test becomes

engine::EngineConfig random_config(base::SeededRandom& random) {
  engine::EngineConfig config;
  config.replicas = 1 + static_cast<std::uint32_t>(random.below(10));
  config.operations = 2 * config.replicas;
  config.requests = 1 + static_cast<std::uint32_t>(random.below(60));
  config.pages_per_request_max = 1 + static_cast<std::uint32_t>(random.below(64));
  config.key_bytes_hashed_max = 64 + static_cast<std::uint32_t>(random.below(2'000));
  config.posts_per_turn = 1 + static_cast<std::uint32_t>(random.below(8));
  return config;
}

struct Run : ReplicaWorld {
  explicit Run(std::uint64_t seed) : Run(base::SeededRandom(seed)) {}
  explicit Run(base::SeededRandom drawn) : ReplicaWorld(random_config(drawn)), random(drawn) {
    mirrors.peers = 1 + static_cast<std::uint32_t>(random.below(4));
    mirrors.lone_one_in = static_cast<std::uint32_t>(random.below(4));
    requester.credits = 1 + static_cast<std::uint32_t>(random.below(20));
  }

  void submit_some() {
    Operation* const probe = engine->allocate();
    if (probe == nullptr) return;
    engine->release(*probe);
    const auto opcode = static_cast<Opcode>(1 + random.below(6));
    const auto pages = 1 + static_cast<std::uint32_t>(random.below(random.one_in(4) ? 300 : 8));
    Operation& operation = make(opcode, pages, (1 + random.below(400)) * kNsPerMs,
                                "b" + std::to_string(last_token + 1));
    if (random.one_in(8)) operation.header.name_space = {3};
    for (std::uint32_t i = 0; i < pages; ++i) operation.replies[i] = {kNobody, 0};
    under_way[operation.client_token] = &operation;
    engine->submit(operation);
  }

  [[nodiscard]] PageReply draw(const transport::PageRequest& page) {
    constexpr std::array kStatuses{Status::not_found, Status::wrong_epoch, Status::no_space,
                                   Status::corrupt,   Status::unreachable, Status::ok};
    const Status status = kStatuses[std::min<std::size_t>(random.below(9), kStatuses.size() - 1)];
    return {status, status == Status::ok ? page.index : 0u};
  }
  // Every page of an open message is one of its batch, which is not over.
  void answer(std::size_t at) {
    const Post& post = requester.posts[at];
    const bool reads = transport::is_read(post.request.header.opcode);
    std::vector<PageReply> replies;
    for (const transport::PageRequest& page : post.request.pages) {
      replies.push_back(draw(page));
      if (!reads || replies.back().status != Status::not_found) continue;
      // One miss of each copy at most: it is not asked again.
      const std::string name = std::string(page.key, page.key_bytes) +
                               (post.request.header.name_space == kTwice ? "" : "'");
      CHECK(missed.insert(name).second);
    }
    requester.reply(at, replies);
  }
  void act() {
    for (std::size_t i = first_open; i < requester.posts.size(); ++i) {
      const Post& post = requester.posts[i];
      if (!post.open) {
        first_open += i == first_open ? 1u : 0u;
        continue;
      }
      const bool is_due = std::any_of(requester.due.begin(), requester.due.end(),
                                      [i](const auto& event) { return event.post == i; });
      if (is_due) continue;
      if (post.resets > 0 || (post.abandons > 0 && random.one_in(2))) {
        requester.fence(i, FenceCause::reset);
      } else if (random.one_in(10)) {
        requester.fence(i, FenceCause::collateral);
      } else if (random.one_in(6)) {
        answer(i);
      }
    }
  }
  void on_complete(Operation& operation) noexcept override {
    CHECK(under_way.erase(operation.client_token) == 1);  // exactly once
    // P5, with the resolution of this test's steps.
    CHECK(clock.now_ns() <= operation.header.deadline_ns + 100 * kNsPerMs);
    for (std::uint32_t i = 0; i < operation.page_count; ++i) {
      const PageReply& reply = operation.replies[i];
      CHECK(reply.status != kNobody);
      if (reply.status == Status::ok) CHECK(reply.bytes == i);
    }
    // Nobody holds its keys or its slices any more, under either name.
    const char* const keys = operation.key_bytes.data();
    for (std::size_t i = first_open; i < requester.posts.size(); ++i) {
      const Post& post = requester.posts[i];
      if (!post.open) continue;
      const std::ptrdiff_t at = post.request.pages[0].key - keys;
      CHECK((at < 0 || at >= static_cast<std::ptrdiff_t>(operation.key_bytes.size())));
    }
    ++completed;
  }
  void go() {
    for (int step = 0; step < 1'500; ++step) {
      if (step < 800 && random.one_in(3)) submit_some();
      if (random.one_in(60)) use_next_map();
      if (random.one_in(30)) {
        requester.unreachable.clear();
        if (random.one_in(2)) cut(static_cast<std::uint32_t>(random.below(mirrors.peers)));
      }
      act();
      if (random.one_in(2)) clock.advance_ns(kNsPerMs);
      engine->do_work();
    }
    CHECK(under_way.empty());
    CHECK(completed > 5);
    CHECK(engine->in_flight() == 0);
    CHECK(requester.open_posts() == 0);
    CHECK(engine->next_deadline_ns() == base::kNoDeadline);
    CHECK(count("late_replies") == 0);
    CHECK(count("bad_replies") == 0);
  }

  base::SeededRandom random;
  std::map<std::uint64_t, const Operation*> under_way;
  std::set<std::string> missed;
  std::size_t first_open = 0;
  int completed = 0;
};

TEST_CASE("whatever owners of both copies do, each page is answered once, and then nobody has it") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = rounds_from("SIMM_ROUNDS", 60);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    INFO("repeat: SIMM_SEED=" << seed + round
                              << " SIMM_ROUNDS=1 unit_engine -tc='whatever owners*'");
    Run run(seed + round);
    run.go();
  }
}

}  // namespace replica_random_test
