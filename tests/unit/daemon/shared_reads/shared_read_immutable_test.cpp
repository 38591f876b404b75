// Copies of immutable namespaces: how long they are served, and what ends them.
#include <string>
#include <vector>

#include "tests/unit/daemon/shared_reads/shared_read_world.h"

namespace shared_read_immutable_test {

using namespace shared_read_world;
using base::kNsPerMs;
using base::kNsPerSecond;

constexpr base::TimeNs kLingerNs = 2 * kNsPerSecond;
constexpr std::uint64_t kBytes = 1000;
const Name kName{1, 2, "key"};

// A node whose readers know that the keys of namespace 2 are immutable.
struct Node {
  Node() { world.store("key", World::pattern(1, kBytes)); }

  // What a reader gets, at once.
  transport::PageReply read(bool immutable = true) {
    World::Options options;
    options.immutable = immutable;
    Ask& ask = world.get({"key"}, kBytes, options);
    world.settle();
    REQUIRE(ask.done);
    if (ask.replies[0].status == Status::ok) value = ask.got(0);
    return ask.replies[0];
  }
  void remove_elsewhere() { world.remote.objects.erase(kName); }

  World world;
  Bytes value;
};

TEST_CASE("immutable: a copy in use serves its readers for ever, and the owner sends it once") {
  Node node;
  for (int i = 0; i < 30; ++i) {
    REQUIRE(node.read().status == Status::ok);
    node.world.pass(kNsPerSecond);
  }
  CHECK(node.value == World::pattern(1, kBytes));
  CHECK(node.world.remote.get_pages == 1);
  CHECK(node.world.remote.sent_bytes == kBytes);
  // A question each half of a linger.
  CHECK(node.world.remote.exists_pages <= 31);
  CHECK(node.world.count("confirmed") == node.world.remote.exists_pages);
  CHECK(node.world.count("hits") == 29);
}

TEST_CASE("immutable: a remove elsewhere reaches the copy within the linger") {
  for (base::TimeNs at_ns = 0; at_ns < 3 * kNsPerSecond; at_ns += 130 * kNsPerMs) {
    Node node;
    REQUIRE(node.read().status == Status::ok);
    node.world.pass(at_ns);
    node.remove_elsewhere();
    node.world.pass(kLingerNs + kNsPerMs);
    CHECK(node.read().status == Status::not_found);
  }
}

TEST_CASE("immutable: an owner that is silent is asked again, and its copy ends with the linger") {
  Node node;
  node.world.pass(5 * kNsPerMs);
  REQUIRE(node.read().status == Status::ok);
  node.world.remote.holds_answers = true;
  node.world.pass(kLingerNs - 10 * kNsPerMs);
  CHECK(node.read().status == Status::ok);
  CHECK(node.world.count("hits") == 1);
  node.world.pass(20 * kNsPerMs);
  node.world.remote.holds_answers = false;
  CHECK(node.read().status == Status::ok);  // from the owner
  CHECK(node.world.remote.get_pages == 2);
}

TEST_CASE("immutable: what nobody uses is asked about no more, and is as old as any other copy") {
  Node node;
  REQUIRE(node.read().status == Status::ok);
  node.world.pass(63 * kNsPerSecond);
  const std::uint64_t asked = node.world.remote.exists_pages;
  CHECK(asked >= 59);
  CHECK(node.world.shared_reads().next_deadline_ns() == base::kNoDeadline);
  node.world.pass(10 * kNsPerSecond);
  CHECK(node.world.remote.exists_pages == asked);
  CHECK(node.read().status == Status::ok);
  CHECK(node.world.remote.get_pages == 2);
}

TEST_CASE("immutable: a reader that does not know it is never served by a confirmed copy") {
  Node node;
  REQUIRE(node.read().status == Status::ok);
  node.world.pass(5 * kNsPerSecond);
  node.world.store("key", World::pattern(2, kBytes));  // the readers are wrong, in fact
  node.world.pass(kLingerNs + kNsPerMs);
  CHECK(node.read().status == Status::ok);
  CHECK(node.value == World::pattern(1, kBytes));
  CHECK(node.read(false).status == Status::ok);
  CHECK(node.value == World::pattern(2, kBytes));
}

TEST_CASE("immutable: an object of another length ends the copy") {
  Node node;
  REQUIRE(node.read().status == Status::ok);
  node.world.store("key", World::pattern(2, kBytes - 1));
  node.world.pass(kLingerNs / 2 + kNsPerMs);
  CHECK(node.world.count("refuted") == 1);
  CHECK(node.read().status == Status::ok);
  CHECK(node.value == World::pattern(2, kBytes - 1));
}

TEST_CASE("immutable: a remove by this node is seen at once") {
  Node node;
  REQUIRE(node.read().status == Status::ok);
  node.world.ask(ipc::Opcode::remove, {"key"}, 0, {});
  node.world.settle();
  CHECK(node.read().status == Status::not_found);
}

TEST_CASE("immutable: many copies share one question, and the lease is that of the fetch") {
  Node node;
  World::Options options;
  options.immutable = true;
  options.lease_ms = 777;
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) {
    keys.push_back("key" + std::to_string(i));
    node.world.store(keys.back(), World::pattern(std::uint64_t(i), 100));
  }
  node.world.get(keys, 100, options);
  node.world.settle();
  node.world.pass(kLingerNs * 3 / 4);
  CHECK(node.world.remote.exists_requests == 1);
  CHECK(node.world.remote.exists_lease_ms == 777);
  CHECK(node.world.remote.exists_pages == 300);
  CHECK(node.world.count("confirmed") == 300);
  for (const std::string& key : keys) {
    node.world.get({key}, 100, options);
    node.world.settle();
  }
  CHECK(node.world.remote.get_pages == 300);
}

}  // namespace shared_read_immutable_test
