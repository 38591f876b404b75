#include "daemon/engine/engine.h"
#include "tests/unit/daemon/engine/engine_world.h"

namespace engine_deadline_test {

using namespace engine_world;
using base::kNsPerMs;
using ipc::Opcode;

TEST_CASE("an operation is cancelled a fence budget before its deadline, abandoned, then reset") {
  struct Case {
    base::TimeNs timeout_ms;
    base::TimeNs cancel_ms;
  };
  // 20 %, at least 10 ms, at most 200 ms, never more than half.
  for (const Case at : {Case{1000, 800}, {100, 80}, {40, 30}, {12, 6}, {5000, 4800}}) {
    CAPTURE(at.timeout_ms);
    World world;
    world.submit(Opcode::get, 2, at.timeout_ms * kNsPerMs);
    world.pass((at.cancel_ms - 1) * kNsPerMs);
    CHECK(world.requester.posts[0].cancels == 0);
    world.pass(2 * kNsPerMs);
    CHECK(world.requester.posts[0].cancels == 1);
    CHECK(world.requester.posts[0].resets == 0);
    CHECK(world.requester.posts[0].abandons == 0);
    world.pass((at.timeout_ms - at.cancel_ms) * kNsPerMs);
    CHECK(world.requester.posts[0].abandons == 1);
    CHECK(world.requester.posts[0].resets == 0);
    world.pass(50 * kNsPerMs);
    CHECK(world.requester.posts[0].resets == 1);
    CHECK(world.requester.posts[0].abandons == 1);
    CHECK(world.requester.posts[0].cancels == 1);
    CHECK(world.outcomes.empty());
    world.requester.fence(0, FenceCause::reset);
    world.engine->do_work();
    REQUIRE(world.outcomes.size() == 1);
    CHECK(world.outcomes[0].status == Status::timeout);
    for (const PageReply& page : world.outcomes[0].pages) CHECK(page.status == Status::timeout);
  }
}

TEST_CASE("however short a deadline is, a peer has half of the grace to answer the cancel") {
  for (const base::TimeNs timeout_ns : {base::TimeNs{1}, base::TimeNs{1000}, 3 * kNsPerMs}) {
    CAPTURE(timeout_ns);
    World world;
    world.submit(Opcode::put, 2, timeout_ns);
    world.pass(timeout_ns + 45 * kNsPerMs);
    CHECK(world.requester.posts[0].cancels == 1);
    world.requester.reply_all_pages(0, Status::cancelled);
    world.pass(100 * kNsPerMs);
    REQUIRE(world.outcomes.size() == 1);
    CHECK(world.outcomes[0].status == Status::timeout);
    CHECK(world.requester.posts[0].resets == 0);
  }
}

TEST_CASE("nothing completes before its fence, however long that takes") {
  World world;
  world.submit(Opcode::get, 1, 100 * kNsPerMs);
  world.pass(250 * kNsPerMs);
  CHECK(world.overdue_told == 1);
  CHECK(world.outcomes.empty());
  // Until then its owner hears of it, several times a second.
  for (std::uint64_t second = 1; second <= 10; ++second) {
    world.pass(1000 * kNsPerMs);
    CHECK(world.overdue_told >= 1 + 4 * second);
    CHECK(world.overdue_told <= 1 + 5 * second);
  }
  const std::uint64_t told = world.overdue_told;
  CHECK(world.count("fences_overdue") == 1);
  CHECK(world.requester.posts[0].resets == 1);
  CHECK(world.outcomes.empty());
  world.requester.fence(0, FenceCause::reset);
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
  world.pass(1000 * kNsPerMs);
  CHECK(world.overdue_told == told);
}

TEST_CASE("a cancelled request may still bring answers, and they count") {
  World world;
  world.submit(Opcode::get, 2, 100 * kNsPerMs);
  world.pass(85 * kNsPerMs);
  world.requester.reply(0, {{Status::ok, 4096}, {Status::cancelled, 0}});
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].status == Status::timeout);
  CHECK(world.outcomes[0].pages[0].status == Status::ok);
  CHECK(world.outcomes[0].pages[1].status == Status::timeout);
  world.pass(1000 * kNsPerMs);
  CHECK(world.requester.posts[0].resets == 0);
}

TEST_CASE("one open request holds the whole batch until it is fenced") {
  World world({}, 2);
  world.submit(Opcode::get, 40, 100 * kNsPerMs);
  REQUIRE(world.requester.posts.size() == 2);
  world.requester.reply_all_pages(0, Status::ok, 10);
  world.pass(160 * kNsPerMs);
  CHECK(world.outcomes.empty());
  CHECK(world.requester.posts[0].cancels == 0);
  CHECK(world.requester.posts[1].resets == 1);
  world.requester.fence(1, FenceCause::reset);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].bytes_moved == 10 * world.requester.posts[0].request.pages.size());
}

TEST_CASE("pages of an owner that answers are hits, whatever another owner does") {
  World world({}, 2);
  world.submit(Opcode::get, 40, 100 * kNsPerMs);
  REQUIRE(world.requester.posts.size() == 2);
  std::vector<bool> is_answered(40);
  for (const auto& page : world.requester.posts[0].request.pages) is_answered[page.index] = true;
  world.requester.reply_all_pages(0, Status::ok, 4096);
  world.pass(120 * kNsPerMs);
  world.requester.fence(1, FenceCause::reset);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  for (std::size_t i = 0; i < 40; ++i) {
    const PageReply& page = world.outcomes[0].pages[i];
    CHECK(page.status == (is_answered[i] ? Status::ok : Status::timeout));
    CHECK(page.bytes == (is_answered[i] ? 4096 : 0));
  }
}

TEST_CASE("what was never posted times out at the fence budget, without a cancel") {
  engine::EngineConfig config;
  config.requests = 2;
  config.pages_per_request_max = 4;
  World world(config);
  world.requester.credits = 1;
  world.submit(Opcode::exists, 12, 100 * kNsPerMs);  // one posted, one without credit
  world.submit(Opcode::exists, 3, 100 * kNsPerMs);   // without an entry
  CHECK(world.requester.posts.size() == 1);
  world.pass(85 * kNsPerMs);
  CHECK(world.requester.posts.size() == 1);
  CHECK(world.requester.posts[0].cancels == 1);
  REQUIRE(world.outcomes.size() == 1);  // the second batch: nothing of it can be touched
  CHECK(world.outcomes[0].client_token == 2);
  CHECK(world.outcomes[0].status == Status::timeout);
  world.requester.reply_all_pages(0, Status::ok, 1);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 2);
  CHECK(world.outcomes[1].pages[3].status == Status::ok);
  CHECK(world.outcomes[1].pages[4].status == Status::timeout);
  CHECK(world.outcomes[1].pages[11].status == Status::timeout);
}

TEST_CASE("a rest without an entry of its own is not sent after the cancel") {
  engine::EngineConfig config;
  config.requests = 1;
  config.pages_per_request_max = 2;
  World world(config);
  world.submit(Opcode::get, 6, 100 * kNsPerMs);
  CHECK(world.requester.posts.size() == 1);
  world.pass(85 * kNsPerMs);
  world.requester.reply_all_pages(0, Status::ok, 7);
  world.pass(10 * kNsPerMs);
  CHECK(world.requester.posts.size() == 1);
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].pages[1].status == Status::ok);
  for (std::size_t i = 2; i < 6; ++i) CHECK(world.outcomes[0].pages[i].status == Status::timeout);
}

TEST_CASE("an operation that arrives after its deadline ends at once") {
  World world;
  Operation& operation = world.make(Opcode::exists, 1, 0);
  operation.header.deadline_ns = world.clock.now_ns() - 5 * kNsPerMs;
  world.engine->submit(operation);
  world.pass(2 * kNsPerMs);
  if (!world.requester.posts.empty()) {
    CHECK(world.requester.posts[0].abandons == 1);
    world.requester.fence(0, FenceCause::reset);
    world.engine->do_work();
  }
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].status == Status::timeout);
}

TEST_CASE("what nobody waits for any more ends soon, and the work of others goes on") {
  engine::EngineConfig config;
  config.requests = 4;
  World world(config);
  constexpr base::TimeNs kHour = 3600 * base::kNsPerSecond;
  world.requester.credits = 2;
  for (int i = 0; i < 5; ++i) world.submit(Opcode::get, 2, kHour);  // 2 posted, 2 wait for credit
  struct Other final : engine::OperationEvents {
    int completed = 0;
    void on_complete(Operation&) noexcept override { ++completed; }
  } other;
  Operation& operation = world.make(Opcode::get, 1, kHour);
  operation.owner = &other;
  world.engine->submit(operation);
  world.pass(10 * kNsPerMs);
  world.engine->end_soon(world, world.clock.now_ns() + 500 * kNsPerMs);
  world.pass(390 * kNsPerMs);
  CHECK(world.outcomes.empty());
  world.pass(20 * kNsPerMs);
  CHECK(world.outcomes.size() == 3);
  for (std::size_t post = 0; post < 2; ++post) {
    CHECK(world.requester.posts[post].cancels == 1);
    world.requester.reply_all_pages(post, Status::cancelled);
  }
  world.pass(2 * kNsPerMs);
  CHECK(world.outcomes.size() == 5);
  REQUIRE(world.requester.posts.size() == 3);
  world.pass(10 * base::kNsPerSecond);
  CHECK(world.requester.posts[2].cancels == 0);
  CHECK(other.completed == 0);
  world.requester.reply_all_pages(2, Status::ok, 1);
  world.pass(kNsPerMs);
  CHECK(other.completed == 1);
}

TEST_CASE("patience does not extend what has to end soon") {
  World world;
  Operation& operation = world.make(Opcode::get, 1, 3600 * base::kNsPerSecond);
  operation.header.patience_ns = base::kNsPerSecond;
  world.engine->submit(operation);
  world.pass(600 * kNsPerMs);
  world.engine->end_soon(world, world.clock.now_ns() + 500 * kNsPerMs);
  for (int ms = 0; ms < 500; ++ms) {
    ++world.requester.moved_count;
    world.pass(kNsPerMs);
  }
  CHECK(world.requester.posts[0].cancels == 1);
}

TEST_CASE("the engine says when it has to run for its timers") {
  World world;
  CHECK(world.engine->next_deadline_ns() == base::kNoDeadline);
  world.submit(Opcode::exists, 1, 100 * kNsPerMs);
  CHECK(world.engine->next_deadline_ns() <= world.clock.now_ns() + 81 * kNsPerMs);
  world.requester.reply_all_pages(0, Status::ok);
  world.engine->do_work();
  CHECK(world.engine->next_deadline_ns() == base::kNoDeadline);
}

}  // namespace engine_deadline_test
