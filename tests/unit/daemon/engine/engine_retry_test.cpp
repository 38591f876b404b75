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

TEST_CASE("wrong_epoch is not asked again of the same map, nor twice") {
  World world;
  SUBCASE("the same map") {
    world.submit(Opcode::put, 2);
    world.requester.reply_all_pages(0, Status::wrong_epoch);
    world.engine->do_work();
    CHECK(world.requester.posts.size() == 1);
  }
  SUBCASE("twice") {
    world.submit(Opcode::put, 2);
    ++world.placement.epoch_now;
    world.requester.reply_all_pages(0, Status::wrong_epoch);
    world.engine->do_work();
    REQUIRE(world.requester.posts.size() == 2);
    ++world.placement.epoch_now;
    world.requester.reply_all_pages(1, Status::wrong_epoch);
    world.engine->do_work();
    CHECK(world.requester.posts.size() == 2);
  }
  REQUIRE(world.outcomes.size() == 1);
  for (const PageReply& page : world.outcomes[0].pages) CHECK(page.status == Status::unreachable);
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
