// Killed at any time, and changed in any bit: histories that a child process is killed in, and
// tables and payloads in which bits are flipped. What comes back is right or absent.
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/random.h"
#include "store_life.h"
#include "tests/support/number_from.h"

namespace simm::store::testing {

namespace kill_test {

constexpr std::uint64_t kArenaBytes = 64 * 1024;

StoreConfig busy() {
  StoreConfig config;
  config.objects_max = 40;
  return config;
}

std::vector<OwnedKey> all_keys() {
  std::vector<OwnedKey> keys;
  for (int i = 0; i < 48; ++i) {
    keys.emplace_back((i % 4 == 0 ? std::string(200, 'k') : "k") + std::to_string(i), 1 + i % 3);
  }
  return keys;
}

// A history that says the same for the same seed, whatever the machine does.
class History {
public:
  History(KeptMemory& memory, std::uint64_t seed)
      : life_(memory, Contents::fresh), random_(seed), keys_(all_keys()) {}

  // Returns the number of the key that the call is about.
  std::size_t act() {
    life_.now += random_.below(50) * base::kNsPerMs;
    const std::size_t number = random_.below(keys_.size());
    const OwnedKey& key = keys_[number];
    switch (random_.below(8)) {
      case 0:
        life_.store->remove(key, life_.now);
        return number;
      case 1:
        life_.store->do_work(life_.now);
        return number;
      case 2:
        life_.store->touch(key, base::kNsPerSecond, life_.now);
        return number;
      default:
        break;
    }
    const std::uint64_t length =
        random_.below(4) == 0 ? 1 + random_.below(20'000) : 1 + random_.below(3000);
    const auto mode = random_.below(3) == 0 ? ipc::PutMode::if_absent : ipc::PutMode::replace;
    const base::TimeNs ttl_ns = random_.below(10) == 0 ? base::kNsPerSecond : 0;
    const auto byte = static_cast<std::uint8_t>(random_.below(256));
    life_.put(key, length, byte, mode, ttl_ns);
    return number;
  }
  [[nodiscard]] base::TimeNs now() const { return life_.now; }

private:
  Life life_;
  base::SeededRandom random_;
  std::vector<OwnedKey> keys_;
};

// What a next life would find, at the same time.
std::vector<int> found_in(KeptMemory& memory, base::TimeNs now_ns) {
  auto shard = memory.as(Contents::kept, now_ns);
  Life next(memory, shard);
  CHECK(next.lies() == 0);
  return next.bytes_of(all_keys());
}

struct Progress {
  std::atomic<std::uint64_t> done;
  std::atomic<base::TimeNs> now_ns;
};

using test_support::number_from;
using test_support::rounds_from;

// The bits of a byte that are flipped: all, or one of them where random work is sampled.
std::vector<int> bits_of(std::size_t byte) {
  static const std::uint64_t luck = std::random_device{}();
  if (rounds_from("SIMM_BITS", 8) < 8) return {static_cast<int>((byte + luck) % 8)};
  return {0, 1, 2, 3, 4, 5, 6, 7};
}

}  // namespace kill_test

TEST_CASE("killed at any time: each key is what it was before or after the call under way") {
  using namespace kill_test;
  const std::uint64_t rounds = number_from("SIMM_KILL_ROUNDS", 60);
  const std::uint64_t first_seed = number_from("SIMM_KILL_SEED", 1);
  std::uint64_t done_in_all = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + rounds; ++seed) {
    INFO("repeat with: SIMM_KILL_SEED=", seed,
         " SIMM_KILL_ROUNDS=1 unit_store -tc='killed at any*'");
    KeptMemory memory(busy(), kArenaBytes);
    KeptMemory shared(busy(), kArenaBytes);  // its payload is where the child reports
    auto* progress = new (shared.payload().data()) Progress{};
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      History history(memory, seed);
      while (true) {
        history.act();
        progress->done.fetch_add(1);
      }
    }
    base::SeededRandom random(seed ^ 0xdead);
    // On a busy machine, with sanitizers, a store may take longer to be made than it lives then. So
    // in every second round it has done something before the clock begins.
    const std::uint64_t first = seed % 2 == 0 ? 1 + random.below(8) : 0;
    while (progress->done.load() < first) ::sched_yield();
    const timespec wait{0, static_cast<long>(200'000 + random.below(4'000'000))};
    ::nanosleep(&wait, nullptr);
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    const std::uint64_t done = progress->done.load();
    done_in_all += done;

    KeptMemory replayed(busy(), kArenaBytes);
    KeptMemory copy(busy(), kArenaBytes);
    History history(replayed, seed);
    for (std::uint64_t i = 0; i < done; ++i) history.act();
    copy.copy_from(replayed);
    const base::TimeNs before_ns = history.now();
    const std::size_t touched = history.act();
    // The clock of the look is that of the call under way: what expires until then may be gone.
    const std::vector<int> before = found_in(copy, before_ns);
    const std::vector<int> after = found_in(replayed, history.now());
    const std::vector<int> found = found_in(memory, history.now());
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("call ", done, ", key ", i, ": ", before[i], " or ", after[i]);
      const bool right = found[i] == before[i] || found[i] == after[i] || found[i] == -1;
      REQUIRE(right);
      // Nothing is lost that the call did not touch. A put of the same byte looks like no call.
      if (i != touched && before[i] == after[i]) REQUIRE(found[i] == before[i]);
    }
  }
  CHECK(done_in_all >= rounds / 2);  // it was killed at work
}

TEST_CASE("any bit of a record, a long key or a payload flipped: right or absent, never wrong") {
  using namespace kill_test;
  const StoreConfig config = StoreFixture::quiet(8);
  constexpr std::uint64_t kBytes = 4096;
  KeptMemory memory(config, kBytes);
  KeptMemory copy(config, kBytes);
  const std::vector<OwnedKey> keys = {OwnedKey("plain"), OwnedKey(std::string(150, 'l')),
                                      OwnedKey("mortal")};
  {
    Life life(memory, Contents::fresh);
    REQUIRE(life.put(keys[0], 200, 1));
    REQUIRE(life.put(keys[1], 300, 2));
    REQUIRE(life.put(keys[2], 100, 3, ipc::PutMode::replace, 100 * kSecond));
  }
  const std::vector<int> right = {1, 2, 3};
  const auto flipped = [&](std::size_t byte, int bit) {
    copy.copy_from(memory);
    copy.table().data()[byte] ^= static_cast<std::byte>(1 << bit);
    Life life(copy);
    const std::vector<int> found = life.bytes_of(keys);
    life.audit();
    return found;
  };
  SUBCASE("of a record: its own object only, and only by what its seal covers") {
    const Record& any = memory.record(1);
    const auto* base = reinterpret_cast<const std::byte*>(&any);
    const auto field = [&](const auto& f) {
      return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&f) - base);
    };
    const std::size_t of_this_life = field(any.ttl);
    for (std::size_t number = 1; number <= 3; ++number) {
      for (std::size_t byte = 0; byte < sizeof(Record); ++byte) {
        const bool in_key = byte >= field(any.key_inline) && byte < field(any.key_check);
        const bool in_used_key = in_key &&
                                 byte - field(any.key_inline) <
                                     memory.record(static_cast<std::uint32_t>(number)).key_bytes &&
                                 number != 2;
        const bool volatile_field = byte >= of_this_life || byte == field(any.state) ||
                                    byte == field(any.if_absent) ||
                                    (byte >= field(any.group) && byte < field(any.group) + 4);
        for (const int bit : bits_of(byte)) {
          INFO("record ", number, ", byte ", byte, ", bit ", bit);
          std::vector<int> expected = right;
          const bool harmless = volatile_field || (in_key && !in_used_key);
          if (!harmless) expected[number - 1] = -1;
          REQUIRE(flipped(4096 + number * sizeof(Record) + byte, bit) == expected);
        }
      }
    }
  }
  SUBCASE("of a long key") {
    const std::size_t long_keys =
        4096 + (Table<Record>::bytes_for(config.objects_max) + 4095) / 4096 * 4096;
    const std::size_t at = long_keys + memory.record(2).long_key * sizeof(LongKey);
    for (std::size_t byte = 0; byte < 160; ++byte) {
      for (const int bit : bits_of(byte)) {
        INFO("byte ", byte, ", bit ", bit);
        const std::vector<int> expected = {1, byte < 150 ? -1 : 2, 3};
        REQUIRE(flipped(at + byte, bit) == expected);
      }
    }
  }
  SUBCASE("of the header: nothing, or all") {
    const std::vector<int> nothing = {-1, -1, -1};
    for (std::size_t byte = 0; byte < sizeof(MetaTable::Header); ++byte) {
      for (const int bit : bits_of(byte)) {
        INFO("byte ", byte, ", bit ", bit);
        const bool boot = byte >= offsetof(MetaTable::Header, boot) &&
                          byte < offsetof(MetaTable::Header, highest);
        // Under another boot, what expires has expired.
        const std::vector<int> expected = boot ? std::vector<int>{1, 2, -1} : nothing;
        REQUIRE(flipped(byte, bit) == expected);
      }
    }
  }
  SUBCASE("of a payload") {
    for (std::size_t byte = 0; byte < kBytes; byte += 7) {
      copy.copy_from(memory);
      copy.payload().data()[byte] ^= std::byte{16};
      Life life(copy);
      const std::vector<int> found = life.bytes_of(keys);
      int wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const bool fine = found[i] == right[i] || found[i] == -2;  // -2: found out by its digest
        REQUIRE(fine);
        wrong += found[i] == -2 ? 1 : 0;
      }
      CHECK(wrong <= 1);
      CHECK(life.store->stats().quarantined == static_cast<std::uint64_t>(wrong));
      // It is a miss from then on.
      for (const int byte_now : life.bytes_of(keys)) CHECK(byte_now != -2);
      life.audit();
    }
  }
}

TEST_CASE("garbage instead of records: an empty store, or what happens to be right") {
  using namespace kill_test;
  const std::uint64_t seed = number_from("SIMM_GARBAGE_SEED", 1);
  INFO("repeat with: SIMM_GARBAGE_SEED=", seed, " unit_store -tc='garbage*'");
  base::SeededRandom random(seed);
  KeptMemory memory(busy(), kArenaBytes);
  const std::uint64_t rounds = rounds_from("SIMM_ROUNDS", 200);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    { Life life(memory, Contents::fresh); }
    for (std::byte& byte : memory.table().subspan(round % 4 == 0 ? 0 : 4096)) {
      byte = static_cast<std::byte>(random.below(256));
    }
    const std::uint32_t highest = static_cast<std::uint32_t>(random.below(41));
    memory.header().highest = std::uint64_t{base::crc32c(&highest, 4)} << 32 | highest;
    // Sealed lies, of which some are possible.
    for (std::uint32_t n = 1; n <= highest && round % 2 == 0; ++n) {
      Record& record = memory.record(n);
      record.length = 1 + random.below(5000);
      record.generation = 1 + random.below(100);
      record.key_bytes = static_cast<std::uint16_t>(1 + random.below(120));
      record.long_key = record.key_bytes <= kInlineKeyBytes
                            ? 0
                            : static_cast<std::uint32_t>(1 + random.below(40));
      record.expires_ns = 0;
      record.key_check = key_check_of({record.key_inline, record.key_bytes});
      record.place = place_at(record, random.below(kArenaBytes));
      seal(record);
    }
    Life life(memory);
    for (int i = 0; i < 60; ++i) {
      life.put(OwnedKey("n" + std::to_string(i)), 1 + random.below(9000), 7);
    }
    life.audit();
    CHECK(life.byte_of(OwnedKey("n59")) == 7);
  }
}

}  // namespace simm::store::testing
