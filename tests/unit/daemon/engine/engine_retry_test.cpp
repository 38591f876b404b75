#include "daemon/engine/engine.h"
#include "tests/unit/daemon/engine/engine_world.h"

namespace engine_retry_test {

using namespace engine_world;
using base::kNsPerMs;
using ipc::Opcode;

TEST_CASE("a request fenced for another one's sake is posted once more, under a new token") {
  World world;
  world.submit(Opcode::get, 3);
  world.requester.fence(0, FenceCause::collateral);
  world.engine->do_work();
  REQUIRE(world.requester.posts.size() == 2);
  CHECK(world.requester.posts[1].token != world.requester.posts[0].token);
  CHECK(world.requester.posts[1].request.pages.size() == 3);
  CHECK(world.outcomes.empty());
  SUBCASE("and answered") {
    world.requester.reply_all_pages(1, Status::ok, 3);
    world.engine->do_work();
    REQUIRE(world.outcomes.size() == 1);
    CHECK(world.outcomes[0].pages[2].status == Status::ok);
  }
  SUBCASE("but not a third time") {
    world.requester.fence(1, FenceCause::collateral);
    world.engine->do_work();
    CHECK(world.requester.posts.size() == 2);
    REQUIRE(world.outcomes.size() == 1);
    CHECK(world.outcomes[0].pages[0].status == Status::not_found);
    CHECK(world.outcomes[0].status == Status::ok);
  }
  CHECK(world.count("retries") == 1);
}

TEST_CASE("after the cancel a collateral fence is the end") {
  World world;
  world.submit(Opcode::put, 1, 100 * kNsPerMs);
  world.pass(85 * kNsPerMs);
  world.requester.fence(0, FenceCause::collateral);
  world.engine->do_work();
  CHECK(world.requester.posts.size() == 1);
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].pages[0].status == Status::timeout);
}

TEST_CASE("pages that met another epoch are routed again under the new placement") {
  World world({}, 2);
  world.submit(Opcode::put, 20);
  REQUIRE(world.requester.posts.size() == 2);
  // The map changes: four owners now.
  world.placement.shards = 4;
  world.placement.epoch_now = 8;
  std::vector<PageReply> replies;
  for (const auto& page : world.requester.posts[0].request.pages) {
    const bool moved = page.index % 2 == 0;
    replies.push_back(moved ? PageReply{Status::wrong_epoch, 0}
                            : PageReply{Status::ok, page.index});
  }
  world.requester.reply(0, replies);
  world.requester.reply_all_pages(1, Status::ok, 1);
  world.engine->do_work();
  CHECK(world.outcomes.empty());
  for (std::size_t i = 2; i < world.requester.posts.size(); ++i) {
    const auto& post = world.requester.posts[i];
    CHECK(post.request.header.epoch == 8);
    std::vector<PageReply> again;
    std::uint32_t last = 0;
    for (const auto& page : post.request.pages) {
      CHECK(world.placement.route(base::slot_of(page.group)) == post.route);
      CHECK(page.index % 2 == 0);
      CHECK(page.index >= last);
      last = page.index;
      again.push_back({Status::ok, page.index});
    }
    world.requester.reply(i, again);
  }
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  for (const auto& page : world.requester.posts[0].request.pages) {
    CHECK(world.outcomes[0].pages[page.index].status == Status::ok);
    CHECK(world.outcomes[0].pages[page.index].bytes == page.index);
  }
}

TEST_CASE("an owner that is behind is asked again after a pause, and at once under a new map") {
  World world;
  world.submit(Opcode::put, 2);
  const PageReply behind{Status::wrong_epoch, 0};
  world.requester.reply(0, {behind, {Status::ok, 1}});
  world.engine->do_work();
  CHECK(world.requester.posts.size() == 1);
  CHECK(world.engine->next_deadline_ns() <= world.clock.now_ns() + 2 * kNsPerMs);
  SUBCASE("the pause") {
    world.pass(3 * kNsPerMs);
    REQUIRE(world.requester.posts.size() == 2);
    CHECK(world.requester.posts[1].request.header.epoch == 7);
  }
  SUBCASE("a new map") {
    ++world.placement.epoch_now;
    world.engine->do_work();
    REQUIRE(world.requester.posts.size() == 2);
    CHECK(world.requester.posts[1].request.header.epoch == 8);
  }
  REQUIRE(world.requester.posts[1].request.pages.size() == 1);
  CHECK(world.requester.posts[1].request.pages[0].index == 0);
  world.requester.reply_all_pages(1, Status::ok, 2);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].pages[0].bytes == 2);
  CHECK(world.outcomes[0].pages[1].bytes == 1);
}

TEST_CASE("who waits for a map in vain gets the answer of an owner that can not be reached") {
  World world;
  const auto answer_all = [&] {
    for (std::size_t i = 0; i < world.requester.posts.size(); ++i) {
      if (world.requester.posts[i].open) world.requester.reply_all_pages(i, Status::wrong_epoch);
    }
  };
  Opcode opcode = Opcode::put;
  base::TimeNs ends_ns = 800 * kNsPerMs;  // it gives up
  SUBCASE("put") {}
  SUBCASE("remove") {
    opcode = Opcode::remove;
  }
  SUBCASE("get") {
    opcode = Opcode::get;
    ends_ns = 100 * kNsPerMs;  // a late read is worth nothing
  }
  SUBCASE("exists") {
    opcode = Opcode::exists;
    ends_ns = 100 * kNsPerMs;
  }
  const base::TimeNs start_ns = world.clock.now_ns();
  world.submit(opcode, 2);
  for (int ms = 0; ms < 1100; ++ms) {
    answer_all();
    world.pass(kNsPerMs);
  }
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].status == Status::ok);
  const bool reads = opcode == Opcode::get || opcode == Opcode::exists;
  for (const PageReply& page : world.outcomes[0].pages) {
    CHECK(page.status == (reads ? Status::not_found : Status::unreachable));
  }
  CHECK(world.outcomes[0].at_ns - start_ns >= ends_ns - kNsPerMs);
  CHECK(world.outcomes[0].at_ns - start_ns <= ends_ns + 10 * kNsPerMs);
  CHECK(world.requester.posts.size() > 30);
  CHECK(world.requester.posts.size() < 410);
}

TEST_CASE("pages behind one that waited for a map do not wait when its owner is out of reach") {
  engine::EngineConfig config;
  config.operations = config.requests = 2;  // no entry for the rest: it follows message by message
  config.pages_per_request_max = 1;
  World world(config);
  world.submit(Opcode::exists, 6);
  REQUIRE(world.requester.posts.size() == 1);
  world.requester.reply_all_pages(0, Status::wrong_epoch);
  world.engine->do_work();
  world.requester.unreachable.push_back({base::kSelf, 0});
  SUBCASE("by the new map") {
    ++world.placement.epoch_now;
  }
  SUBCASE("when it is asked again") {
    world.clock.advance_ns(config.map_pause_ns);
  }
  for (int turn = 0; turn < 6; ++turn) world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  for (const PageReply& page : world.outcomes[0].pages) CHECK(page.status == Status::not_found);
}

TEST_CASE("a put or remove that was fenced for another one's sake is not posted again") {
  World world;
  world.submit(Opcode::put, 1);
  world.submit(Opcode::remove, 1);
  world.submit(Opcode::exists, 1);
  for (std::size_t i = 0; i < 3; ++i) world.requester.fence(i, FenceCause::collateral);
  world.engine->do_work();
  CHECK(world.requester.posts.size() == 4);
  CHECK(world.requester.posts[3].request.header.opcode == Opcode::exists);
  REQUIRE(world.outcomes.size() == 2);
  for (const Completed& outcome : world.outcomes) {
    CHECK(outcome.pages[0].status == Status::unreachable);
  }
}

TEST_CASE("an owner that can not be reached costs its own pages only") {
  World world({}, 2);
  world.requester.unreachable.push_back({base::kSelf, 1});
  for (const Opcode opcode : {Opcode::put, Opcode::get, Opcode::remove, Opcode::exists}) {
    const bool reads = opcode == Opcode::get || opcode == Opcode::exists;
    world.outcomes.clear();
    world.submit(opcode, 20);
    world.engine->do_work();
    const auto& post = world.requester.posts.back();
    REQUIRE(post.open);
    world.requester.reply_all_pages(world.requester.posts.size() - 1, Status::ok, 1);
    world.engine->do_work();
    REQUIRE(world.outcomes.size() == 1);
    const auto ok = std::count_if(world.outcomes[0].pages.begin(), world.outcomes[0].pages.end(),
                                  [](const PageReply& page) { return page.status == Status::ok; });
    CHECK(static_cast<std::size_t>(ok) == post.request.pages.size());
    CHECK(ok < 20);
    for (const PageReply& page : world.outcomes[0].pages) {
      if (page.status == Status::ok) continue;
      CHECK(page.status == (reads ? Status::not_found : Status::unreachable));
    }
  }
}

TEST_CASE("each peer is asked through the transport that leads to it") {
  ScriptedRequester self;
  ScriptedRequester first;
  ScriptedRequester second;
  engine::PeerRequesters table(self, 4);
  table.add(first);
  table.add(second);
  table.lead({1}, &first);
  table.lead({2}, &second);
  CHECK(table.find(base::kSelf) == &self);
  CHECK(table.find({1}) == &first);
  CHECK(table.find({2}) == &second);
  CHECK(table.find({3}) == nullptr);
  CHECK(table.find({4}) == nullptr);
  table.lead({1}, &second);
  CHECK(table.find({1}) == &second);
  table.lead({1}, nullptr);
  CHECK(table.find({1}) == nullptr);

  transport::PageRequest page;
  transport::Request request;
  request.pages = {&page, 1};
  int told = 0;
  struct Events final : transport::RequesterEvents {
    explicit Events(int& count) : told(count) {}
    void on_reply(RequestToken, std::span<const PageReply>) noexcept override { ++told; }
    void on_fenced(RequestToken, FenceCause) noexcept override {}
    int& told;
  } events(told);
  for (ScriptedRequester* requester : {&self, &first, &second}) {
    requester->events = &events;
    REQUIRE(requester->post({}, 1, request) == Status::ok);
    requester->reply_all_pages(0, Status::ok);
  }
  CHECK(table.do_work() == 3);
  CHECK(told == 3);
}

TEST_CASE("a request that waits for credit is routed again when the map changes meanwhile") {
  World world;
  world.requester.credits = 0;
  world.submit(Opcode::get, 30);
  world.placement.shards = 3;
  ++world.placement.epoch_now;
  world.requester.credits = 100;
  world.engine->do_work();
  CHECK(world.requester.posts.size() == 3);
  for (const auto& post : world.requester.posts) CHECK(post.request.header.epoch == 8);
}

}  // namespace engine_retry_test
