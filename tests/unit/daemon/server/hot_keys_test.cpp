// What a server says of its hottest keys. Random streams print their seed.
#include "daemon/server/hot_keys.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {
namespace {

// Of the shard's last report, by the hash of the key: the part of the total.
std::map<base::KeyHash, double> shares_of(const base::HotList& list) {
  std::map<base::KeyHash, double> shares;
  for (std::uint32_t i = 0; i < list.count; ++i) {
    shares[list.entries[i].key.hash] = list.entries[i].count / double(list.total);
  }
  return shares;
}

}  // namespace

TEST_CASE("hot keys: the part of a key in pages and in bytes is what it was, sampled") {
  ServerFixture f(4 << 20);
  f.put({"small", "large"}, {1000, 64 * 1024}, 1);
  // Three of four pages are the small one's, 1 in 65 of the bytes is about 22 of 23.
  for (int i = 0; i < 20'000; ++i) {
    f.get({i % 4 == 0 ? "large" : "small"}, {64 * 1024});
  }
  f.clock.advance_ns(base::kNsPerSecond);
  f.settle();
  const base::HotTable& table = f.server->hot_keys().latest();
  const auto small = f.request(ipc::Opcode::get, {"small"})->pages[0].hash;
  const auto large = f.request(ipc::Opcode::get, {"large"})->pages[0].hash;
  CHECK(shares_of(table.requests)[small] == doctest::Approx(0.75).epsilon(0.1));
  CHECK(shares_of(table.requests)[large] == doctest::Approx(0.25).epsilon(0.3));
  CHECK(shares_of(table.bytes)[large] == doctest::Approx(0.956).epsilon(0.1));
  CHECK(table.requests.entries[0].key.tenant.value == 1);
}

TEST_CASE("hot keys: pages of a batch are sampled wherever they stand, misses and exists too") {
  ServerFixture f;
  const std::vector<std::string> keys = {"a", "b", "c", "d"};
  for (int i = 0; i < 20'000; ++i) {
    const auto asked = f.request(i % 2 == 0 ? ipc::Opcode::exists : ipc::Opcode::remove, keys);
    f.server->on_request(asked->incoming);
    REQUIRE(asked->replied);
  }
  f.clock.advance_ns(base::kNsPerSecond);
  f.settle();
  const auto shares = shares_of(f.server->hot_keys().latest().requests);
  REQUIRE(shares.size() == keys.size());
  for (const auto& [hash, share] : shares) CHECK(share == doctest::Approx(0.25).epsilon(0.2));
  CHECK(f.server->hot_keys().latest().bytes.total == 0);
}

TEST_CASE("hot keys: what is not this shard's is not counted") {
  ServerFixture f;
  f.map.epoch = ServerFixture::kEpoch + 1;
  f.map.since.fill(0);  // it owns nothing any more
  f.server->use_map(f.map);
  for (int i = 0; i < 5'000; ++i) {
    const auto asked = f.request(ipc::Opcode::exists, {"a"});
    f.server->on_request(asked->incoming);
    REQUIRE(asked->replies[0].status == Status::wrong_epoch);
  }
  f.clock.advance_ns(base::kNsPerSecond);
  f.settle();
  CHECK(f.server->hot_keys().latest().requests.total == 0);
}

TEST_CASE("hot keys: minutes later the past counts little, and an idle shard forgets") {
  ServerFixture f;
  const auto ask = [&](const char* key, int times) {
    for (int i = 0; i < times; ++i) {
      const auto asked = f.request(ipc::Opcode::exists, {key});
      f.server->on_request(asked->incoming);
    }
    f.clock.advance_ns(base::kNsPerSecond);
    f.settle();
  };
  ask("old", 20'000);
  f.clock.advance_ns(5 * HotKeys::kHalfLifeNs);
  f.settle();
  ask("new", 20'000);
  auto shares = shares_of(f.server->hot_keys().latest().requests);
  const auto recent = f.request(ipc::Opcode::get, {"new"})->pages[0].hash;
  CHECK(shares[recent] > 0.9);
  f.clock.advance_ns(1000 * HotKeys::kHalfLifeNs);
  f.settle();
  ask("new", 1);
  CHECK(f.server->hot_keys().latest().requests.total <= 2 * base::SpaceSaving::kScale);
}

TEST_CASE("hot keys: a tenant that asks for ever new keys hides no other tenant's hot key") {
  ServerFixture f;
  for (int i = 0; i < 60'000; ++i) {
    const bool is_victim = i % 8 == 0;
    const auto asked =
        f.request(ipc::Opcode::exists, {is_victim ? "system prompt" : "flood " + std::to_string(i)},
                  {}, 0, is_victim ? 1 : 2);
    f.server->on_request(asked->incoming);
  }
  f.clock.advance_ns(base::kNsPerSecond);
  f.settle();
  const base::HotList& list = f.server->hot_keys().latest().requests;
  const auto* const hottest = std::max_element(
      list.entries.begin(), list.entries.begin() + list.count,
      [](const auto& a, const auto& b) { return a.count - a.error < b.count - b.error; });
  CHECK(hottest->key.tenant.value == 1);
  // An eighth, less the bound of the algorithm and what sampling may miss.
  CHECK((hottest->count - hottest->error) / double(list.total) > 0.125 - 1.0 / 64 - 0.03);
}

}  // namespace simm::server::testing
