#include "daemon/engine/engine.h"

#include <set>

#include "tests/unit/daemon/engine/engine_world.h"

namespace engine_test {

using namespace engine_world;
using ipc::Opcode;

TEST_CASE("a batch goes to its owner in one request and comes back with its pages' answers") {
  World world;
  const std::uint64_t token = world.submit(Opcode::get, 3);
  REQUIRE(world.requester.posts.size() == 1);
  const auto& post = world.requester.posts[0];
  CHECK(post.request.header.epoch == 7);
  CHECK(post.request.header.opcode == Opcode::get);
  CHECK(post.request.pages.size() == 3);
  world.requester.reply(0, {{Status::ok, 4096}, {Status::not_found, 0}, {Status::ok, 100}});
  CHECK(world.outcomes.empty());
  CHECK(world.engine->do_work() > 0);
  REQUIRE(world.outcomes.size() == 1);
  const Completed& outcome = world.outcomes[0];
  CHECK(outcome.client_token == token);
  CHECK(outcome.status == Status::ok);
  CHECK(outcome.bytes_moved == 4196);
  CHECK(outcome.pages[0].bytes == 4096);
  CHECK(outcome.pages[1].status == Status::not_found);
  CHECK(outcome.pages[2].bytes == 100);
  CHECK(world.engine->in_flight() == 0);
  CHECK(world.count("batches") == 1);
  CHECK(world.count("pages") == 3);
}

TEST_CASE("pages are grouped by owner, and each answer finds the client's page again") {
  World world({}, 4, 3);
  world.submit(Opcode::exists, 200);
  CHECK(world.requester.posts.size() == 12);
  std::set<std::uint32_t> seen;
  std::set<std::pair<std::uint32_t, std::uint16_t>> owners;
  for (std::size_t i = 0; i < world.requester.posts.size(); ++i) {
    const auto& post = world.requester.posts[i];
    CHECK(owners.insert({post.route.peer.value, post.route.shard}).second);
    std::vector<PageReply> replies;
    std::uint32_t last = 0;
    for (const auto& page : post.request.pages) {
      CHECK(world.placement.route(base::slot_of(page.group)) == post.route);
      CHECK(seen.insert(page.index).second);
      CHECK(page.index >= last);  // stable: the client's order inside one owner
      last = page.index;
      const std::string key(page.key, page.key_bytes);
      CHECK(key == "key/" + std::to_string(page.index));
      replies.push_back({Status::ok, 1000u + page.index});
    }
    world.requester.reply(i, replies);
  }
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  for (std::uint32_t i = 0; i < 200; ++i) CHECK(world.outcomes[0].pages[i].bytes == 1000 + i);
}

TEST_CASE("messages are capped") {
  engine::EngineConfig config;
  config.pages_per_request_max = 16;
  World world(config);
  world.submit(Opcode::exists, 50);
  REQUIRE(world.requester.posts.size() == 4);
  CHECK(world.requester.posts[0].request.pages.size() == 16);
  CHECK(world.requester.posts[3].request.pages.size() == 2);
  for (std::size_t i = 0; i < 4; ++i) world.requester.reply_all_pages(i, Status::ok, 1);
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
}

TEST_CASE("long keys make several messages, and each page its own answer") {
  engine::EngineConfig config;
  config.key_bytes_per_request_max = 1000;
  config.lookup_key_bytes_max = 10'000;
  World world(config);
  Operation& operation = world.make(Opcode::exists, 20, base::kNsPerSecond, std::string(190, 'k'));
  world.engine->submit(operation);
  REQUIRE(world.requester.posts.size() == 4);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(world.requester.posts[i].request.pages.size() == 5);
    std::vector<PageReply> replies;
    for (int page = 0; page < 5; ++page) replies.push_back({Status::ok, ++length});
    world.requester.reply(i, replies);
  }
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  for (std::size_t i = 0; i < 20; ++i) CHECK(world.outcomes[0].pages[i].bytes == i + 1);
}

TEST_CASE("of long keys few are hashed in one turn, and those of other batches come between") {
  engine::EngineConfig config;
  config.key_bytes_hashed_max = 1000;
  World world(config);
  for (std::size_t batch = 0; batch < 2; ++batch) {
    world.engine->submit(world.make(Opcode::get, 20, base::kNsPerSecond, std::string(190, 'k')));
    CHECK(world.requester.posts.size() == batch + 1);
  }
  Operation& other = world.make(Opcode::get, 3, base::kNsPerSecond, std::string(190, 'k'));
  other.header.tenant = {2};
  world.engine->submit(other);
  REQUIRE(world.requester.posts.size() == 3);
  CHECK(world.requester.posts[2].request.pages.size() == 3);
  for (std::size_t turn = 1; turn <= 6; ++turn) {
    world.engine->do_work();
    REQUIRE(world.requester.posts.size() == 3 + turn);
    CHECK(world.requester.posts.back().request.pages.size() == 5);
  }
  for (std::size_t post = 0; post < 9; ++post) {
    world.requester.reply_all_pages(post, Status::ok, 7);
  }
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 3);
  for (const auto& outcome : world.outcomes) {
    for (const auto& page : outcome.pages) CHECK(page.bytes == 7);
  }
}

TEST_CASE("pages whose keys were never hashed are answered at the deadline") {
  engine::EngineConfig config;
  config.key_bytes_hashed_max = 1000;
  World world(config);
  world.engine->submit(world.make(Opcode::get, 20, base::kNsPerSecond, std::string(190, 'k')));
  world.requester.reply_all_pages(0, Status::ok, 7);
  world.clock.advance_ns(base::kNsPerSecond);
  world.engine->do_work();
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  std::size_t late = 0;
  for (const auto& page : world.outcomes[0].pages) late += page.status == Status::timeout ? 1u : 0u;
  CHECK(late == 15);
}

TEST_CASE("look-ups of one tenant have few bytes of keys out, those of another one do not wait") {
  engine::EngineConfig config;
  config.key_bytes_per_request_max = 1000;
  config.lookup_key_bytes_max = 2000;
  World world(config);
  world.engine->submit(world.make(Opcode::exists, 20, base::kNsPerSecond, std::string(190, 'k')));
  CHECK(world.requester.posts.size() == 2);
  // What moves bytes is not meant.
  world.engine->submit(world.make(Opcode::get, 20, base::kNsPerSecond, std::string(190, 'k')));
  CHECK(world.requester.posts.size() == 6);
  Operation& other = world.make(Opcode::exists, 20, base::kNsPerSecond, std::string(190, 'k'));
  other.header.tenant = {2};
  world.engine->submit(other);
  CHECK(world.requester.posts.size() == 8);
  for (std::size_t post = 0; post < 12; ++post) {
    REQUIRE(world.requester.posts.size() > post);
    world.requester.reply_all_pages(post, Status::ok, 1);
    world.engine->do_work();
  }
  CHECK(world.requester.posts.size() == 12);
  CHECK(world.outcomes.size() == 3);
}

TEST_CASE("a key that is longer than a message may be goes alone") {
  engine::EngineConfig config;
  config.key_bytes_per_request_max = 100;
  config.lookup_key_bytes_max = 1'000'000;
  World world(config);
  world.engine->submit(world.make(Opcode::exists, 3, base::kNsPerSecond, std::string(500, 'k')));
  CHECK(world.requester.posts.size() == 3);
}

TEST_CASE("requests wait for credit and go out as it comes back") {
  engine::EngineConfig config;
  config.pages_per_request_max = 1;
  World world(config);
  world.requester.credits = 2;
  world.submit(Opcode::exists, 9);
  for (std::size_t answered = 0; answered < 9; ++answered) {
    CHECK(world.requester.open_posts() == std::min<std::size_t>(2, 9 - answered));
    CHECK(world.outcomes.empty());
    world.requester.reply_all_pages(answered, Status::ok, 1);
    world.engine->do_work();
  }
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].status == Status::ok);
  CHECK(world.count("no_credit") > 0);
}

TEST_CASE("with a request pool too small for a batch its parts go one after the other") {
  engine::EngineConfig config;
  config.requests = 2;
  World world(config, 8);
  const std::uint64_t first = world.submit(Opcode::exists, 300);
  const std::uint64_t second = world.submit(Opcode::exists, 5);
  std::size_t answered = 0;
  for (int turn = 0; turn < 100 && world.outcomes.size() < 2; ++turn) {
    CHECK(world.requester.open_posts() <= 2);
    while (answered < world.requester.posts.size()) {
      std::vector<PageReply> replies;
      for (const auto& page : world.requester.posts[answered].request.pages) {
        replies.push_back({Status::ok, 1u + page.index});
      }
      world.requester.reply(answered++, replies);
    }
    world.engine->do_work();
  }
  REQUIRE(world.outcomes.size() == 2);
  // The small one does not wait for the parts of the other.
  CHECK(world.outcomes[0].client_token == second);
  CHECK(world.outcomes[1].client_token == first);
  for (std::uint32_t i = 0; i < 300; ++i) CHECK(world.outcomes[1].pages[i].bytes == 1 + i);
}

TEST_CASE("operations are lent until the pool is empty, and again after they completed") {
  engine::EngineConfig config;
  config.operations = 3;
  World world(config);
  for (int i = 0; i < 3; ++i) world.submit(Opcode::exists, 1);
  CHECK(world.engine->allocate() == nullptr);
  CHECK(world.count("pool_exhausted") == 1);
  world.requester.reply_all_pages(1, Status::ok);
  world.engine->do_work();
  Operation* again = world.engine->allocate();
  REQUIRE(again != nullptr);
  CHECK(again->page_count == 0);
  CHECK(again->requests_open == 0);
  world.engine->release(*again);
  CHECK(world.engine->allocate() == again);  // last in, first out
}

TEST_CASE("a batch without pages completes in the next turn") {
  World world;
  world.submit(Opcode::noop, 0);
  CHECK(world.outcomes.empty());
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
}

TEST_CASE("an owner that can not be reached is a miss for reads and an error for writes") {
  World world;
  world.requester.unreachable.push_back({base::kSelf, 0});
  for (Opcode opcode : {Opcode::get, Opcode::exists, Opcode::put, Opcode::remove}) {
    world.submit(opcode, 2);
    CHECK(world.outcomes.empty());  // never from inside submit()
    world.engine->do_work();
    REQUIRE(world.outcomes.size() == 1);
    const bool reads = opcode == Opcode::get || opcode == Opcode::exists;
    for (const PageReply& page : world.outcomes[0].pages) {
      CHECK(page.status == (reads ? Status::not_found : Status::unreachable));
    }
    world.outcomes.clear();
  }
}

TEST_CASE("an answer that does not fit its request is not believed") {
  World world;
  SUBCASE("too few pages") {
    world.submit(Opcode::get, 2);
    world.requester.reply(0, {{Status::ok, 1}});
  }
  SUBCASE("more bytes than the slice has") {
    world.submit(Opcode::get, 2);
    world.requester.reply(0, {{Status::ok, 4097}, {Status::transfer_failed, 0}});
  }
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  for (const PageReply& page : world.outcomes[0].pages) {
    CHECK(page.status == Status::transfer_failed);
    CHECK(page.bytes == 0);
  }
  CHECK(world.outcomes[0].bytes_moved == 0);
  CHECK(world.count("bad_replies") == 1);
}

TEST_CASE("what was there already counts as success but not as bytes moved") {
  World world;
  world.submit(Opcode::put, 2);
  world.requester.reply(0, {{Status::exists, 4096}, {Status::ok, 4096}});
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].pages[0].status == Status::ok);
  CHECK(world.outcomes[0].pages[0].bytes == 4096);
  CHECK(world.outcomes[0].bytes_moved == 4096);
}

TEST_CASE("answers to requests that are over are dropped and counted") {
  World world;
  world.submit(Opcode::exists, 1);
  const RequestToken old_token = world.requester.posts[0].token;
  world.requester.reply_all_pages(0, Status::ok);
  world.engine->do_work();
  world.submit(Opcode::exists, 1);  // takes the same pool entry
  const std::vector<PageReply> late = {{Status::not_found, 0}};
  world.engine->on_reply(old_token, late);
  world.engine->on_fenced(old_token, FenceCause::reset);
  world.engine->on_reply(~RequestToken{0}, late);
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
  CHECK(world.count("late_replies") == 3);
  world.requester.reply_all_pages(1, Status::ok, 5);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 2);
  CHECK(world.outcomes[1].pages[0].bytes == 5);
}

TEST_CASE("every page of a batch is counted once, by operation and by what became of it") {
  World world;
  world.submit(Opcode::get, 6);
  world.requester.reply(0, {{Status::ok, 4096},
                            {Status::not_found, 0},
                            {Status::size_mismatch, 10},
                            {Status::corrupt, 0},
                            {Status::ok, 100},
                            {Status::io_error, 0}});
  world.submit(Opcode::put, 4);
  world.requester.reply(
      1, {{Status::ok, 50}, {Status::no_space, 0}, {Status::exists, 7}, {Status::cancelled, 0}});
  world.submit(Opcode::exists, 2);
  world.requester.reply(2, {{Status::ok, 9}, {Status::unreachable, 0}});
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 3);
  CHECK(world.count("op.get.batches") == 1);
  CHECK(world.count("op.get.bytes") == 4196);
  CHECK(world.count("op.get.pages.ok") == 2);
  CHECK(world.count("op.get.pages.not_found") == 1);
  CHECK(world.count("op.get.pages.size_mismatch") == 1);
  CHECK(world.count("op.get.pages.corrupt") == 1);
  CHECK(world.count("op.get.pages.failed") == 1);
  CHECK(world.count("op.put.batches") == 1);
  CHECK(world.count("op.put.pages.ok") == 1);
  CHECK(world.count("op.put.pages.exists") == 1);
  CHECK(world.count("op.put.pages.no_space") == 1);
  CHECK(world.count("op.put.pages.timeout") == 1);
  CHECK(world.count("op.exists.pages.ok") == 1);
  CHECK(world.count("op.exists.pages.unreachable") == 1);
  std::uint64_t pages = 0;
  for (const auto& [name, value] : world.counters.snapshot()) {
    if (name.find(".op.") != std::string::npos && name.find(".pages.") != std::string::npos) {
      pages += value;
    }
  }
  CHECK(pages == 12);
}

TEST_CASE("one batch in so many is timed, stage by stage") {
  engine::EngineConfig config;
  config.stages_one_in = 3;
  World world(config);
  for (int batch = 0; batch < 7; ++batch) {
    world.requester.credits = 0;
    world.submit(Opcode::get, 1);
    world.pass(2 * base::kNsPerMs);
    world.requester.credits = ~0u;
    world.pass(1 * base::kNsPerMs);
    world.clock.advance_ns(5 * base::kNsPerMs);
    world.requester.reply_all_pages(world.requester.posts.size() - 1, Status::ok);
    world.engine->do_work();
  }
  REQUIRE(world.outcomes.size() == 7);
  CHECK(world.count("stage.post_ns.sum") == 2 * 3 * base::kNsPerMs);
  CHECK(world.count("stage.wire_ns.sum") == 2 * 5 * base::kNsPerMs);
  CHECK(world.count("stage.complete_ns.log2_00") == 2);
  CHECK(world.count("complete_ns.sum") == 7 * 8 * base::kNsPerMs);
}

TEST_CASE("a batch that nobody accepted has no stages") {
  engine::EngineConfig config;
  config.stages_one_in = 1;
  World world(config);
  world.requester.unreachable = {{base::kSelf, 0}};
  world.submit(Opcode::get, 1);
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
  for (const auto& [name, value] : world.counters.snapshot()) {
    if (name.find(".stage.") != std::string::npos) CHECK(value == 0);
  }
}

}  // namespace engine_test
