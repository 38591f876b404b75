#include "daemon/server/scrubber.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/agent.h"
#include "daemon/base/manual_clock.h"
#include "daemon/base/random.h"
#include "daemon/store/pool/record_seal.h"
#include "tests/unit/daemon/server/scripted_responder.h"
#include "tests/unit/daemon/store/kept_memory.h"
#include "tests/unit/daemon/store/store_fixture.h"

namespace scrubber_test {

using namespace simm;
using server::Scrubber;
using server::ScrubCounters;
using store::StoreTestAccess;
using store::testing::OwnedKey;
using store::testing::StoreFixture;

constexpr std::uint64_t kFast = std::uint64_t{1} << 30;
constexpr std::uint64_t kPiece = Scrubber::kPieceBytes;

struct World {
  explicit World(std::uint64_t bytes_per_s = kFast, std::uint64_t arena_bytes = 1 << 20)
      : f(arena_bytes),
        errors(clock),
        scrubber(bytes_per_s, *f.store, ScrubCounters(counters, "scrub"), &errors) {}

  // A turn in which nobody wants anything, when it is time for one.
  int turn(bool busy = false) {
    f.now = clock.now_ns();
    return scrubber.do_work(clock.now_ns(), busy);
  }
  // Sleeps as long as it may, until the pass is over.
  void pass() {
    const std::uint64_t before = count("passes");
    for (int turns = 0; count("passes") == before; ++turns) {
      REQUIRE(turns < 100'000);
      if (turn() > 0) continue;
      const base::TimeNs next_ns = scrubber.next_deadline_ns();
      REQUIRE(next_ns != base::kNoDeadline);
      clock.set_ns(std::max(clock.now_ns(), next_ns));
    }
  }
  std::uint64_t count(const char* name) { return counters.value(std::string("scrub.") + name); }
  std::byte& byte_of(const OwnedKey& key, std::uint64_t at) {
    const store::Record& record = StoreTestAccess::record_of(*f.store, key);
    return f.arena_[(record.place & store::kPlaceMask) * 64 + at];
  }

  base::ManualClock clock{1000 * base::kNsPerSecond};
  base::CounterSet counters;
  StoreFixture f;
  base::ErrorLog errors;
  Scrubber scrubber;
};

TEST_CASE("any flipped bit of any object is found in one pass, and only that object is lost") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_server -tc='any flipped bit*'");
  base::SeededRandom random(seed);
  for (int round = 0; round < 50; ++round) {
    World w;
    std::vector<OwnedKey> keys;
    for (int i = 0; i < 6; ++i) keys.emplace_back("key" + std::to_string(i));
    std::vector<std::uint64_t> lengths;
    for (const OwnedKey& key : keys) {
      lengths.push_back(1 + random.below(3) * kPiece + random.below(200));
      if (!w.f.put(key, lengths.back(), 7)) lengths.back() = 0;
    }
    const std::size_t victim = random.below(2);
    w.byte_of(keys[victim], random.below(lengths[victim])) ^= std::byte{1} << random.below(8);
    w.pass();
    CHECK(w.count("corrupt") == 1);
    CHECK(w.f.store->stats().quarantined == 1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      CHECK(w.f.has(keys[i]) == (i != victim && lengths[i] > 0));
    }
    const auto told = w.errors.entries();
    REQUIRE(told.size() == 1);
    CHECK(told[0].site == "server.scrub");
    CHECK(told[0].status == Status::corrupt);
    CHECK(told[0].text.find("damaged bytes: tenant=0000000000000001 key_hash=") == 0);
    CHECK(told[0].text.find("key0") == std::string::npos);
  }
}

TEST_CASE("a record that is damaged goes, and its memory comes back") {
  World w;
  const OwnedKey key("a");
  REQUIRE(w.f.put(key, 1000, 1));
  store::Record& record = StoreTestAccess::record_of(*w.f.store, key);
  SUBCASE("digest") {
    record.payload_digest ^= 1;
  }
  SUBCASE("place") {
    record.place += 1;
  }
  SUBCASE("a key that nobody can ask for any more") {
    record.key_inline[0] ^= 1;
  }
  w.pass();
  CHECK(w.count("damaged_records") == 1);
  CHECK(w.count("objects") == 0);
  CHECK(w.f.store->stats().damaged_records == 1);
  CHECK(w.f.store->stats().free_bytes == w.f.store->stats().arena_bytes);
  CHECK(w.errors.entries().at(0).text.find("damaged record: tenant=") == 0);
}

TEST_CASE("a damaged hash, which leads to no entry, ends nothing") {
  World w;
  const OwnedKey key("a");
  REQUIRE(w.f.put(key, 1000, 1));
  store::Record& record = StoreTestAccess::record_of(*w.f.store, key);
  const std::uint64_t hash = record.hash.low;
  record.hash.low ^= 0x5555;
  w.pass();
  CHECK(w.f.store->objects() == 1);
  CHECK_FALSE(w.f.has(key));
  record.hash.low = hash;
  CHECK(w.f.has(key));
}

TEST_CASE("the pace is kept, whatever the turns are like") {
  constexpr std::uint64_t kRate = 4 << 20;
  World w(kRate);
  for (int i = 0; i < 7; ++i) REQUIRE(w.f.put(OwnedKey(std::to_string(i)), 130'000, 1));
  base::SeededRandom random(1);
  const base::TimeNs start_ns = w.clock.now_ns();
  while (w.count("passes") == 0) {
    w.turn();
    const double seconds = static_cast<double>(w.clock.now_ns() - start_ns) * 1e-9;
    const double credit = seconds * kRate + kRate * static_cast<double>(Scrubber::kNapNs) * 1e-9;
    REQUIRE(static_cast<double>(w.count("bytes")) <= credit + kPiece);
    // From a turn in a microsecond to none in a long time.
    w.clock.advance_ns(std::uint64_t{1} << random.below(24));
  }
  CHECK(w.count("objects") == 7);
  CHECK(w.count("bytes") == 7 * 130'000);
}

TEST_CASE("a turn reads one piece, and under load there is one in a millisecond") {
  World w;
  REQUIRE(w.f.put(OwnedKey("large"), 10 * kPiece + 5, 1));
  REQUIRE(w.turn() == 1);  // finds it
  std::uint64_t turns = 0;
  while (w.count("objects") == 0) {
    const std::uint64_t before = w.count("bytes");
    turns += static_cast<std::uint64_t>(w.turn(true));
    CHECK(w.count("bytes") - before <= kPiece);
    w.clock.advance_ns(base::kNsPerMs / 10);
    CHECK(turns <= (w.clock.now_ns() - 1000 * base::kNsPerSecond) / base::kNsPerMs + 1);
  }
  CHECK(turns == 11);
}

TEST_CASE("an object that goes or moves while it is read holds no memory and is no damage") {
  World w;
  const OwnedKey key("a");
  REQUIRE(w.f.put(key, 3 * kPiece, 1));
  REQUIRE(w.turn() == 1);
  w.clock.advance_ns(base::kNsPerSecond);
  REQUIRE(w.turn() == 1);
  REQUIRE(w.count("bytes") == kPiece);
  SUBCASE("removed") {
    CHECK(w.f.store->remove(key, w.f.now));
    CHECK(w.f.store->stats().free_bytes == w.f.store->stats().arena_bytes);
  }
  SUBCASE("replaced by an object in the same record") {
    CHECK(w.f.store->remove(key, w.f.now));
    CHECK(w.f.put(OwnedKey("b"), 3 * kPiece, 2));
  }
  SUBCASE("replaced") {
    CHECK(w.f.put(key, 3 * kPiece, 2, ipc::PutMode::replace));
    CHECK(w.f.store->stats().lingering == 0);
  }
  w.pass();
  CHECK(w.count("corrupt") == 0);
  CHECK(w.f.store->stats().quarantined == 0);
  CHECK(w.errors.entries().empty());
}

TEST_CASE("it sleeps while there is nothing, naps within a pass, and waits for the next one") {
  World w(1 << 20);
  CHECK(w.turn() == 0);
  CHECK(w.scrubber.next_deadline_ns() == base::kNoDeadline);
  REQUIRE(w.f.put(OwnedKey("a"), 2 * kPiece, 1));
  const base::TimeNs start_ns = w.clock.now_ns();
  REQUIRE(w.turn() == 1);
  w.clock.advance_ns(base::kNsPerSecond);
  REQUIRE(w.turn() == 1);
  const base::TimeNs nap_ns = w.scrubber.next_deadline_ns() - w.clock.now_ns();
  CHECK(nap_ns >= Scrubber::kNapNs);
  w.pass();
  CHECK(w.count("progress_permille") == 1000);
  CHECK(w.count("pass_ns") >= base::kNsPerSecond);
  w.clock.advance_ns(base::kNsPerSecond);
  CHECK(w.turn() == 0);
  CHECK(w.scrubber.next_deadline_ns() == start_ns + Scrubber::kPassNs);
  w.clock.set_ns(start_ns + Scrubber::kPassNs);
  CHECK(w.turn() == 1);
}

TEST_CASE("switched off it does nothing") {
  World w(0);
  REQUIRE(w.f.put(OwnedKey("a"), 100, 1));
  w.byte_of(OwnedKey("a"), 0) ^= std::byte{1};
  for (int i = 0; i < 100; ++i) {
    CHECK(w.turn() == 0);
    w.clock.advance_ns(base::kNsPerSecond);
  }
  CHECK(w.scrubber.next_deadline_ns() == base::kNoDeadline);
  CHECK(w.count("objects") == 0);
}

TEST_CASE("what an earlier life left is read before what this one put") {
  const store::StoreConfig config = StoreFixture::quiet();
  const store::testing::KeptMemory memory(config, 1 << 20);
  const base::TimeNs now_ns = 1000 * base::kNsPerSecond;
  const auto put = [&](store::Store& in, const OwnedKey& key) {
    const auto begun = in.begin_write({key, 1000, ipc::PutMode::if_absent, 0}, now_ns);
    REQUIRE(begun.start == store::WriteStart::reserved);
    in.publish(begun.reservation, StoreFixture::fill(begun.reservation, 3), 1, now_ns);
  };
  {
    const auto life = memory.open(store::Contents::fresh);
    for (int i = 0; i < 3; ++i) put(*life, OwnedKey("gone" + std::to_string(i)));
    for (int i = 0; i < 5; ++i) put(*life, OwnedKey("old" + std::to_string(i)));
    for (int i = 0; i < 3; ++i) CHECK(life->remove(OwnedKey("gone" + std::to_string(i)), now_ns));
  }
  const auto life = memory.open(store::Contents::kept);
  REQUIRE(life->unverified() == 5);
  for (int i = 0; i < 3; ++i) put(*life, OwnedKey("new" + std::to_string(i)));  // records 1 .. 3
  base::CounterSet counters;
  Scrubber scrubber(kFast, *life, ScrubCounters(counters, "scrub"), nullptr);
  base::TimeNs at_ns = now_ns;
  while (life->unverified() > 0) {
    (void)scrubber.do_work(at_ns, false);
    at_ns += base::kNsPerMs;
  }
  CHECK(counters.value("scrub.objects") == 5);
  CHECK(counters.value("scrub.passes") == 0);
  while (counters.value("scrub.passes") == 0) {
    (void)scrubber.do_work(at_ns, false);
    at_ns += base::kNsPerMs;
  }
  CHECK(counters.value("scrub.objects") == 5 + 8);
  CHECK(life->audit() == nullptr);
}

TEST_CASE("a server scrubs its store in its turns, and what it finds is a miss") {
  server::ServerConfig config = server::testing::ServerFixture::verifying();
  config.verify = base::VerifyMode::never;
  config.scrub_bytes_per_s = 1000;  // so that what was put is still to be read
  server::testing::ServerFixture f(64 * 1024, config);
  f.put({"a", "b"}, {1000, 1000}, 5);
  *std::find(f.arena.begin(), f.arena.end(), std::byte{5}) = std::byte{4};
  for (int turn = 0; turn < 50; ++turn) {
    f.clock.advance_ns(base::kNsPerSecond / 10);
    f.server->do_work();
  }
  CHECK(f.store->stats().quarantined == 1);
  const auto got = f.get({"a", "b"}, {1000, 1000});
  REQUIRE(got->replied);
  const auto hits = std::count_if(got->replies.begin(), got->replies.end(),
                                  [](const auto& reply) { return reply.status == Status::ok; });
  CHECK(hits == 1);
}

}  // namespace scrubber_test
