// Which reads an engine sends to shared reads, and what it keeps for their fetches.
#include <string>
#include <thread>
#include <vector>

#include "daemon/engine/engine.h"
#include "daemon/engine/shared_key.h"
#include "tests/unit/daemon/engine/engine_world.h"

namespace engine_shared_read_test {

using namespace engine_world;
using ipc::Opcode;

const std::string kDigest(64, 'c');

// Slots of shard 0 are this daemon's own, the others' owners are elsewhere.
struct SharedReadWorld : World {
  explicit SharedReadWorld(engine::EngineConfig config = {}) : World(config, 1, 2) {
    engine->use_shared_reads(3, marks);
  }
  std::vector<Route> routes() const {
    std::vector<Route> all;
    for (const auto& post : requester.posts) all.push_back(post.route);
    return all;
  }
  bool asks_shared_reads() const {
    const auto all = routes();
    return std::any_of(all.begin(), all.end(),
                       [](const Route& route) { return route.peer == engine::kSharedReads; });
  }
  engine::WriteMarks marks;
};

// Nothing is this daemon's own.
struct ElsewhereOnly final : engine::Placement {
  base::Epoch epoch() const noexcept override { return 8; }
  Route route(base::Slot) const noexcept override { return {base::PeerId{1}, 0}; }
};

TEST_CASE("the shape of a key that every rank of a node reads") {
  CHECK(engine::is_shared_key(kDigest + "__k"));
  CHECK(engine::is_shared_key("tag-" + kDigest + "__k"));
  CHECK(engine::is_shared_key(std::string(32, 'F') + "__k"));
  CHECK_FALSE(engine::is_shared_key(std::string(31, 'F') + "__k"));
  CHECK_FALSE(engine::is_shared_key(kDigest + "_0_k"));
  CHECK_FALSE(engine::is_shared_key(kDigest + "_0_v"));
  CHECK_FALSE(engine::is_shared_key(kDigest + "_k"));
  CHECK_FALSE(engine::is_shared_key(kDigest + "__v"));
  CHECK_FALSE(engine::is_shared_key(kDigest));
  CHECK_FALSE(engine::is_shared_key("__k"));
  CHECK_FALSE(engine::is_shared_key(std::string(31, 'a') + "g__k"));
}

TEST_CASE(
    "shared gets of other daemons' objects go to shared reads, by slot; everything else does not") {
  SharedReadWorld world;
  Operation& get = world.make(Opcode::get, 60, base::kNsPerSecond);
  get.header.shared_read = true;
  bool shared_reads = true;
  SUBCASE("a get") {}
  SUBCASE("not shared") {
    get.header.shared_read = shared_reads = false;
  }
  SUBCASE("a range") {
    get.header.ranged = true;
    shared_reads = false;
  }
  SUBCASE("an offset") {
    get.pages[59].object_offset = 1;
    shared_reads = false;
  }
  SUBCASE("an exists") {
    get.header.opcode = Opcode::exists;
    shared_reads = false;
  }
  SUBCASE("a put") {
    get.header.opcode = Opcode::put;
    shared_reads = false;
  }
  SUBCASE("a fetch") {
    get.is_fetch = true;
    shared_reads = false;
  }
  world.engine->submit(get);
  CHECK(world.asks_shared_reads() == shared_reads);
  for (const auto& post : world.requester.posts) {
    for (const auto& page : post.request.pages) {
      const base::Slot slot = base::slot_of(page.group);
      const Route owner = world.placement.route(slot);
      const bool to_shared_reads = shared_reads && owner.peer != base::kSelf;
      CHECK(post.route == (to_shared_reads
                               ? Route{engine::kSharedReads, static_cast<std::uint16_t>(slot % 3)}
                               : owner));
    }
  }
  get.is_fetch = false;  // it came from the common pool
  for (std::size_t i = 0; i < world.requester.posts.size(); ++i) {
    world.requester.reply_all_pages(i, Status::ok);
  }
  world.engine->do_work();
}

struct Reads {
  bool are_immutable = true;
  bool are_ranged = false;
};

// Where a get of the key is sent.
Route route_of(SharedReadWorld& world, const std::string& name, const Reads& reads) {
  Operation& get = world.make(Opcode::get, 1, base::kNsPerSecond, name);
  get.header.immutable = reads.are_immutable;
  get.header.ranged = reads.are_ranged;
  world.requester.posts.clear();
  world.engine->submit(get);
  REQUIRE(world.requester.posts.size() == 1);
  const Route route = world.requester.posts[0].route;
  world.requester.reply_all_pages(0, Status::ok, 1);
  world.engine->do_work();
  return route;
}

// One key again and again, and ever new ones in between. That key.
std::string read_one_often(SharedReadWorld& world, const Reads& reads, int rounds = 2'000) {
  std::string often = "often";
  while (route_of(world, often, reads).peer == base::kSelf) often += '+';
  for (int round = 0; round < rounds; ++round) {
    const bool is_often = round % 4 == 0;
    (void)route_of(world, is_often ? often : "other" + std::to_string(round), reads);
    world.clock.advance_ns(base::kNsPerMs);
  }
  return often;
}

TEST_CASE("what is read often in an immutable namespace goes to shared reads, and nothing else") {
  SharedReadWorld world;
  const std::string often = read_one_often(world, {});
  CHECK(route_of(world, often, {}).peer == engine::kSharedReads);
  CHECK(route_of(world, often, {.are_immutable = false}).peer == base::PeerId{1});
  CHECK(route_of(world, often, {.are_ranged = true}).peer == base::PeerId{1});
  int shared = 0;
  for (int i = 0; i < 200; ++i) {
    shared += route_of(world, "new" + std::to_string(i), {}).peer == engine::kSharedReads ? 1 : 0;
  }
  CHECK(shared <= 1);  // one may have the slot of the other key
}

TEST_CASE("what was read often goes to its owner again when others are") {
  SharedReadWorld world;
  const std::string often = read_one_often(world, {});
  world.clock.advance_ns(600 * base::kNsPerSecond);
  for (int i = 0; i < 1'000; ++i) (void)route_of(world, "later" + std::to_string(i), {});
  CHECK(route_of(world, often, {}).peer == base::PeerId{1});
}

TEST_CASE("values that change, ranges, and few reads make nothing hot") {
  for (const Reads& reads : {Reads{.are_immutable = false}, Reads{.are_ranged = true}}) {
    SharedReadWorld world;
    CHECK(route_of(world, read_one_often(world, reads), {}).peer == base::PeerId{1});
  }
  SharedReadWorld world;
  CHECK(route_of(world, read_one_often(world, {}, 100), {}).peer == base::PeerId{1});
}

TEST_CASE("a page that shared reads decline goes to its owner") {
  SharedReadWorld world;
  Operation& get = world.make(Opcode::get, 60, base::kNsPerSecond);
  get.header.shared_read = true;
  world.engine->submit(get);
  const std::size_t first = world.requester.posts.size();
  std::size_t declined = 0;
  for (std::size_t i = 0; i < first; ++i) {
    std::vector<PageReply> replies;
    for (const auto& page : world.requester.posts[i].request.pages) {
      const bool no_room =
          world.requester.posts[i].route.peer == engine::kSharedReads && page.index % 2 == 0;
      replies.push_back(no_room ? PageReply{Status::no_space, 0} : PageReply{Status::ok, 1});
      declined += no_room ? 1u : 0u;
    }
    world.requester.reply(i, replies);
  }
  REQUIRE(declined > 0);
  world.engine->do_work();
  CHECK(world.count("declined") == declined);
  std::size_t asked_again = 0;
  for (std::size_t i = first; i < world.requester.posts.size(); ++i) {
    CHECK(world.requester.posts[i].route == Route{base::PeerId{1}, 0});
    asked_again += world.requester.posts[i].request.pages.size();
    world.requester.reply_all_pages(i, Status::ok, 2);
  }
  CHECK(asked_again == declined);
  world.engine->do_work();
  REQUIRE(world.outcomes.size() == 1);
  for (const PageReply& page : world.outcomes[0].pages) CHECK(page.status == Status::ok);
}

TEST_CASE("a batch is shared by the shape of all of its keys") {
  SharedReadWorld world;
  Operation& get = world.make(Opcode::get, 2, base::kNsPerSecond);
  const std::string first = kDigest + "__k";
  std::string second = std::string(64, 'd') + "__k";
  bool shared_reads = true;
  SUBCASE("all") {}
  SUBCASE("not the last one") {
    second = "settings";
    shared_reads = false;
  }
  const ElsewhereOnly elsewhere;
  world.engine->use_placement(elsewhere);
  get.pages[0].key = first.data();
  get.pages[0].key_bytes = static_cast<std::uint32_t>(first.size());
  get.pages[1].key = second.data();
  get.pages[1].key_bytes = static_cast<std::uint32_t>(second.size());
  world.engine->submit(get);
  CHECK(world.asks_shared_reads() == shared_reads);
  for (std::size_t i = 0; i < world.requester.posts.size(); ++i) {
    world.requester.reply_all_pages(i, Status::ok);
  }
  world.engine->do_work();
}

TEST_CASE("a page that shared reads decline when its time is over has timed out") {
  SharedReadWorld world;
  Operation& get = world.make(Opcode::get, 60, 100 * base::kNsPerMs);
  get.header.shared_read = true;
  world.engine->submit(get);
  world.pass(95 * base::kNsPerMs);  // asked to end, and not answered yet
  const std::size_t posts = world.requester.posts.size();
  for (std::size_t i = 0; i < posts; ++i) {
    const bool by_shared_reads = world.requester.posts[i].route.peer == engine::kSharedReads;
    world.requester.reply_all_pages(i, by_shared_reads ? Status::no_space : Status::ok, 1);
  }
  world.engine->do_work();
  CHECK(world.requester.posts.size() == posts);
  REQUIRE(world.outcomes.size() == 1);
  CHECK(world.outcomes[0].status == Status::timeout);
  bool timed_out = false;
  for (const PageReply& page : world.outcomes[0].pages) {
    CHECK((page.status == Status::ok || page.status == Status::timeout));
    timed_out |= page.status == Status::timeout;
  }
  CHECK(timed_out);
}

TEST_CASE("a write leaves its mark before it completes, whatever became of it") {
  SharedReadWorld world;
  world.submit(Opcode::put, 1);
  const base::KeyHash hash = world.requester.posts[0].request.pages[0].hash;
  const std::uint32_t before = world.marks.of(hash);
  world.requester.reply_all_pages(0, Status::ok);
  SUBCASE("ok") {}
  SUBCASE("fenced") {
    world.requester.due.clear();
    world.requester.fence(0, FenceCause::collateral);
  }
  CHECK(world.marks.of(hash) == before);
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
  CHECK(world.marks.of(hash) != before);
}

TEST_CASE("who reads a new mark sees what its writer saw before") {
  engine::WriteMarks marks(1);
  const base::KeyHash hash{};
  int written = 0;  // plain: the sanitizer watches it
  std::thread writer([&] {
    written = 42;
    marks.mark(hash);
  });
  while (marks.of(hash) == 0) std::this_thread::yield();
  CHECK(written == 42);
  writer.join();
}

TEST_CASE("operations and requests are kept for fetches") {
  engine::EngineConfig config;
  config.operations = 4;
  config.requests = 6;
  config.fetches = 2;
  config.pages_per_request_max = 1;
  SharedReadWorld world(config);
  world.submit(Opcode::get, 20);  // takes all the requests that it may
  world.submit(Opcode::get, 1);
  CHECK(world.engine->allocate() == nullptr);
  CHECK(world.requester.posts.size() == 4);
  Operation* first = world.engine->allocate_fetch();
  Operation* second = world.engine->allocate_fetch();
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(world.engine->allocate_fetch() == nullptr);
  for (Operation* fetch : {first, second}) {
    Operation& like = *fetch;
    like.header.opcode = Opcode::exists;
    like.header.deadline_ns = world.clock.now_ns() + base::kNsPerSecond;
    like.owner = &world;
    like.page_count = 1;
    like.pages[0] = {};
    like.pages[0].key = "key";
    like.pages[0].key_bytes = 3;
    world.engine->submit(like);
  }
  CHECK(world.requester.posts.size() == 6);
  world.requester.reply_all_pages(4, Status::ok);
  world.engine->do_work();
  CHECK(world.outcomes.size() == 1);
  Operation* third = world.engine->allocate_fetch();
  REQUIRE(third != nullptr);
  world.engine->release(*third);
}

}  // namespace engine_shared_read_test
