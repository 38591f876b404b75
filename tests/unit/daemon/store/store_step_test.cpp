// Killed between any two instructions: a child does one thing to a store, step by step, and after
// every instruction that changed the metadata table (and at some others) this process reads back a
// copy of both memories, as the next life would. Each object has to be what it was before or what
// it is afterwards, once it is the latter it stays so, and no entry may look damaged.
//
// The order in which the compiler stores is what is tested, so only the build that is shipped is:
// an instrumented one would step through instructions of the sanitizer, and order others.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "daemon/base/slot_ownership.h"
#include "stepped_child.h"
#include "store_life.h"

namespace simm::store::testing {

namespace step_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsInstrumented = true;
#else
constexpr bool kIsInstrumented = false;
#endif

constexpr std::uint64_t kArenaBytes = 16 * 1024;

const StoreConfig kTiny = StoreFixture::quiet(12);

struct Scenario {
  std::string name;
  std::vector<OwnedKey> keys;
  std::function<void(Life&)> before;
  std::function<void(Life&)> act;
  bool loses_first = false;  // an object may be absent before it is what it is afterwards
};

// What the next life would find.
std::vector<int> found_in(const KeptMemory& memory, KeptMemory& copy,
                          const std::vector<OwnedKey>& keys, base::TimeNs now_ns) {
  copy.copy_from(memory);
  Life next(copy);
  next.now = now_ns;
  CHECK(next.lies() == 0);
  return next.bytes_of(keys);
}

void run(const Scenario& scenario) {
  INFO("scenario: ", scenario.name);
  KeptMemory memory(kTiny, kArenaBytes);
  KeptMemory copy(kTiny, kArenaBytes);
  std::vector<int> after;
  base::TimeNs end_ns = 0;  // of the next lives' clock
  {
    Life rehearsal(memory, Contents::fresh);
    scenario.before(rehearsal);
    scenario.act(rehearsal);
    after = rehearsal.bytes_of(scenario.keys);
    end_ns = rehearsal.now;
  }
  std::memset(memory.table().data(), 0, memory.table().size());
  Life life(memory, Contents::fresh);
  scenario.before(life);
  const std::vector<int> before = found_in(memory, copy, scenario.keys, life.now);
  CHECK(before != after);
  SteppedChild child([&] { scenario.act(life); });

  std::vector<std::byte> table(memory.table().begin(), memory.table().end());
  std::vector<bool> done(before.size(), false);
  std::uint64_t looks = 0;
  const auto look = [&] {
    ++looks;
    const std::vector<int> found = found_in(memory, copy, scenario.keys, end_ns);
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("step ", child.steps(), ", key ", scenario.keys[i].bytes.substr(0, 20));
      if (found[i] == after[i]) done[i] = true;
      const bool right = found[i] == after[i] || (found[i] == before[i] && !done[i]) ||
                         (found[i] == -1 && scenario.loses_first);
      REQUIRE(right);
    }
  };
  constexpr std::uint64_t kSampledEvery = 509;
  while (child.step()) {
    const bool changed = std::memcmp(table.data(), memory.table().data(), table.size()) != 0;
    if (changed) std::memcpy(table.data(), memory.table().data(), table.size());
    if (changed || child.steps() % kSampledEvery == 0) look();
  }
  look();
  CHECK(done == std::vector<bool>(done.size(), true));
  CHECK(looks > 10);  // it was stepped
}

OwnedKey long_key(char of) {
  return OwnedKey(std::string(150, of));
}

// Four objects that fill the arena.
std::vector<OwnedKey> four() {
  return {OwnedKey("k0"), OwnedKey("k1"), OwnedKey("k2"), long_key('l')};
}
void put_four(Life& life) {
  std::uint8_t byte = 1;
  for (const OwnedKey& key : four()) REQUIRE(life.put(key, 4096, byte++));
}

}  // namespace step_test

TEST_CASE("killed at any instruction: of a put" * doctest::skip(step_test::kIsInstrumented)) {
  using namespace step_test;
  run({"a new key",
       {OwnedKey("k0"), OwnedKey("new")},
       [](Life& life) { life.put(OwnedKey("k0"), 500, 1); },
       [](Life& life) { life.put(OwnedKey("new"), 300, 2); }});
  run({"a long key, where another one was",
       {long_key('a'), long_key('b'), OwnedKey("k0")},
       [](Life& life) {
         life.put(OwnedKey("k0"), 500, 1);
         life.put(long_key('a'), 300, 2);
         life.store->remove(long_key('a'), life.now);
       },
       [](Life& life) { life.put(long_key('b'), 300, 3); }});
  run({"a replacement",
       {OwnedKey("k0"), OwnedKey("k1")},
       [](Life& life) {
         life.put(OwnedKey("k0"), 500, 1);
         life.put(OwnedKey("k1"), 500, 2);
       },
       [](Life& life) { life.put(OwnedKey("k1"), 700, 3); }});
}

TEST_CASE("killed at any instruction: of what takes objects away" *
          doctest::skip(step_test::kIsInstrumented)) {
  using namespace step_test;
  run({"a removal, and a put in its place",
       {OwnedKey("k0"), long_key('a'), OwnedKey("new")},
       [](Life& life) {
         life.put(OwnedKey("k0"), 500, 1);
         life.put(long_key('a'), 15'000, 2);
       },
       [](Life& life) {
         life.store->remove(long_key('a'), life.now);
         life.put(OwnedKey("new"), 15'000, 3);
       }});
  run({"an eviction for a put", four(), put_four,
       [](Life& life) { life.put(OwnedKey("new"), 4096, 9); }});
  run({"a replacement that has no room beside the old one",
       {OwnedKey("k0")},
       [](Life& life) { life.put(OwnedKey("k0"), 16'000, 1); },
       [](Life& life) { life.put(OwnedKey("k0"), 15'000, 2); },
       true});
  run({"the end of a TTL",
       {OwnedKey("k0"), OwnedKey("brief")},
       [](Life& life) {
         life.put(OwnedKey("k0"), 500, 1);
         life.put(OwnedKey("brief"), 500, 2, ipc::PutMode::replace, kSecond);
       },
       [](Life& life) {
         life.now += 2 * kSecond;
         life.store->do_work(life.now);
       }});
  static base::SlotOwnership nothing;
  nothing.epoch = 9;
  run({"lost slots", four(), put_four, [](Life& life) {
         life.store->keep_slots(nothing);
         life.store->do_work(life.now);
       }});
  run({"a damaged payload, found by its reader", four(),
       [](Life& life) {
         put_four(life);
         life.memory_.payload()[4096] ^= std::byte{1};
       },
       [](Life& life) { life.byte_of(OwnedKey("k1")); }});
}

TEST_CASE("killed at any instruction: of a move" * doctest::skip(step_test::kIsInstrumented)) {
  using namespace step_test;
  run({"moves for a wide object",
       {OwnedKey("k0"), OwnedKey("k2"), OwnedKey("k3"), OwnedKey("wide")},
       [](Life& life) {
         for (int i = 0; i < 4; ++i) {
           life.put(OwnedKey("k" + std::to_string(i)), 4000, static_cast<std::uint8_t>(i + 1));
         }
         life.store->remove(OwnedKey("k1"), life.now);
         life.store->remove(OwnedKey("k3"), life.now);
       },
       [](Life& life) { life.put(OwnedKey("wide"), 8000, 9); }});
}

TEST_CASE("killed at any instruction: of the recovery itself" *
          doctest::skip(step_test::kIsInstrumented)) {
  using namespace step_test;
  run({"a table with something of everything",
       {OwnedKey("k0"), OwnedKey("k1"), OwnedKey("brief"), long_key('a'), long_key('b')},
       [](Life& life) {
         life.put(OwnedKey("k0"), 500, 1);
         life.put(OwnedKey("brief"), 500, 5, ipc::PutMode::replace, kSecond);
         life.put(long_key('a'), 700, 4);
         life.put(long_key('b'), 700, 6);
         life.store->remove(long_key('a'), life.now);
         life.put(OwnedKey("k1"), 500, 2);
         Record& old_place = StoreTestAccess::record_of(*life.store, OwnedKey("k1"));
         const Record old = old_place;
         life.put(OwnedKey("k1"), 600, 3);
         old_place = old;  // as if it had died right before it cleared this
       },
       [](Life& life) {
         life.now += 2 * kSecond;
         const auto memory = life.memory_.as(Contents::kept, life.now);
         life.store = std::move(*Store::create(life.memory_.config(), memory));
       }});
}

}  // namespace simm::store::testing
