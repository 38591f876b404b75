#include "daemon/store/eviction/eviction_policy.h"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "daemon/base/choice.h"
#include "daemon/base/random.h"

namespace simm::store::testing {

namespace {

constexpr base::TimeNs kPolicySecond = base::kNsPerSecond;

// A policy and the groups it orders.
struct PolicyUnderTest {
  PolicyUnderTest(EvictionKind kind, std::uint32_t capacity)
      : memory(std::size_t{capacity} + 1), groups(memory.data(), capacity) {
    auto made = make_eviction_policy(kind, groups, 4);
    REQUIRE(made.has_value());
    policy = std::move(made).value();
  }

  std::uint32_t make(std::uint32_t account, std::uint64_t name) {
    const std::uint32_t group = groups.allocate();
    groups[group].account = account;
    groups[group].hash = XXH3_64bits(&name, sizeof name);
    groups[group].depth_step = static_cast<std::uint8_t>(name % 7);
    policy->note_use(group, now_ns);
    policy->enqueue(group);
    return group;
  }
  std::uint32_t victim(std::uint32_t account) const {
    return policy->candidate(account, now_ns).group;
  }
  // Of two accounts, as somebody would choose who knows nothing but worth.
  std::uint32_t cheaper(std::uint32_t one, std::uint32_t other) const {
    const auto a = policy->candidate(one, now_ns);
    const auto b = policy->candidate(other, now_ns);
    return a.worth < b.worth ? a.group : b.group;
  }
  void evict(std::uint32_t group) {
    policy->note_eviction(group);
    policy->dequeue(group);
    groups.release(group);
  }

  std::vector<Group> memory;
  Table<Group> groups;
  std::unique_ptr<EvictionPolicy> policy;
  base::TimeNs now_ns = 1000 * kPolicySecond;
};

}  // namespace

TEST_CASE("first in, first out: a use changes nothing; least recently used: it does") {
  for (const EvictionKind kind : {EvictionKind::fifo, EvictionKind::lru}) {
    PolicyUnderTest p(kind, 8);
    const std::uint32_t a = p.make(1, 1);
    p.now_ns += kPolicySecond;
    const std::uint32_t b = p.make(2, 2);
    p.now_ns += kPolicySecond;
    const std::uint32_t c = p.make(1, 3);
    p.now_ns += kPolicySecond;
    p.policy->note_use(a, p.now_ns);
    const bool fifo = kind == EvictionKind::fifo;
    CHECK(p.cheaper(1, 2) == (fifo ? a : b));
    CHECK(p.victim(1) == (fifo ? a : c));
    CHECK(p.victim(2) == b);
    CHECK(p.victim(3) == kNone);
  }
}

TEST_CASE("without experience the reuse policy takes the least recently used of those used once") {
  PolicyUnderTest p(EvictionKind::reuse, 8);
  const std::uint32_t a = p.make(1, 1);
  p.now_ns += 10 * kPolicySecond;
  const std::uint32_t b = p.make(1, 2);
  p.now_ns += 10 * kPolicySecond;
  const std::uint32_t c = p.make(1, 3);
  p.now_ns += 10 * kPolicySecond;
  p.policy->note_use(a, p.now_ns);
  CHECK(p.victim(1) == b);
  p.evict(b);
  CHECK(p.victim(1) == c);
}

TEST_CASE("uses within a second are one, and a group that comes back counts on") {
  PolicyUnderTest p(EvictionKind::reuse, 8);
  const std::uint32_t group = p.make(1, 1);
  CHECK(p.groups[group].uses == 1);
  p.now_ns += kPolicySecond / 2;
  p.policy->note_use(group, p.now_ns);
  CHECK(p.groups[group].uses == 1);
  p.now_ns += kPolicySecond;
  p.policy->note_use(group, p.now_ns);
  CHECK(p.groups[group].uses == 2);
  p.evict(group);
  CHECK(p.groups[p.make(1, 1)].uses == 3);
  CHECK(p.groups[p.make(1, 2)].uses == 1);
  for (int i = 0; i < 300; ++i) {
    p.now_ns += 2 * kPolicySecond;
    p.policy->note_use(group, p.now_ns);  // the number was used again
  }
  CHECK(p.groups[group].uses == 255);
}

TEST_CASE("what is used all the time has as many uses as seconds, however short its gaps are") {
  for (const base::TimeNs gap_ns : {kPolicySecond / 2, kPolicySecond / 10, kPolicySecond / 1000}) {
    PolicyUnderTest p(EvictionKind::reuse, 8);
    const std::uint32_t hot = p.make(1, 1);
    const base::TimeNs end_ns = p.now_ns + 10 * kPolicySecond;
    for (; p.now_ns <= end_ns; p.now_ns += gap_ns) p.policy->note_use(hot, p.now_ns);
    CAPTURE(gap_ns);
    CHECK(p.groups[hot].uses >= 10);
    CHECK(p.groups[hot].uses <= 11);
  }
}

TEST_CASE("what is waited for stays, and the deepest of the last that came leaves before it") {
  PolicyUnderTest p(EvictionKind::reuse, 64);
  // One group a second; each is used a second time after 30 s, and not again.
  std::vector<std::uint32_t> made;
  std::uint64_t name = 0;
  for (int second = 0; second < 4000; ++second, p.now_ns += kPolicySecond) {
    if (made.size() >= 30) {
      const std::uint32_t due = made[made.size() - 30];
      p.policy->note_use(due, p.now_ns);
      p.evict(due);
    }
    made.push_back(p.make(1, 7 * ++name));
  }
  const std::uint32_t last = p.make(1, 7 * ++name + 3);  // of the same time, and deeper
  CHECK(p.victim(1) == last);
  // When all wait longer than they ever had to, the oldest is the worst.
  p.now_ns += 300 * kPolicySecond;
  static_cast<void>(p.make(1, 7 * ++name));
  CHECK(p.victim(1) == made[made.size() - 30]);
}

TEST_CASE("a scan does not push out what is used again and again") {
  // Ten groups are used every 200 s; meanwhile the cache is flooded with others, once each.
  const auto kept = [](EvictionKind kind) {
    constexpr std::uint32_t kCapacity = 200;
    PolicyUnderTest p(kind, kCapacity);
    std::vector<std::uint32_t> at(10, kNone);
    std::vector<std::uint64_t> owner(kCapacity + 1, ~std::uint64_t{0});
    std::uint64_t name = 1000;
    std::uint32_t hits = 0;
    const auto put = [&](std::uint64_t n) {
      if (p.groups.full()) {
        const std::uint32_t victim = p.victim(1);
        if (owner[victim] < at.size()) at[owner[victim]] = kNone;
        p.evict(victim);
      }
      const std::uint32_t group = p.make(1, n);
      owner[group] = n;
      return group;
    };
    for (std::uint32_t second = 0; second < 8000; ++second) {
      p.now_ns += kPolicySecond;
      for (int i = 0; i < 3; ++i) put(name++);
      if (second % 20 != 0) continue;
      const std::uint64_t hot = second / 20 % at.size();
      if (at[hot] != kNone) {
        p.policy->note_use(at[hot], p.now_ns);
        hits += second >= 4000 ? 1 : 0;
      } else {
        at[hot] = put(hot);
      }
    }
    return hits;
  };
  CHECK(kept(EvictionKind::lru) == 0);
  CHECK(kept(EvictionKind::reuse) > 180);  // of 200
}

TEST_CASE("random policies: a victim is always one of those queued, of its account") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='random policies*'");
  base::SeededRandom random(seed);
  for (const EvictionKind kind : base::all_choices<EvictionKind>(base::kEvictionNames)) {
    PolicyUnderTest p(kind, 100);
    std::vector<std::uint32_t> all;
    std::set<std::uint32_t> queued;
    for (int step = 0; step < 20'000; ++step) {
      p.now_ns += random.below(kPolicySecond);
      const std::uint64_t what = random.below(8);
      if (what < 2 && !p.groups.full()) {
        all.push_back(p.make(1 + static_cast<std::uint32_t>(random.below(3)), random.below(500)));
        queued.insert(all.back());
      } else if (what < 5 && !all.empty()) {
        p.policy->note_use(all[random.below(all.size())], p.now_ns);
      } else if (what < 6 && !all.empty()) {
        const std::uint32_t group = all[random.below(all.size())];
        if (queued.erase(group) > 0) {
          p.policy->dequeue(group);
        } else {
          p.policy->enqueue(group);
          queued.insert(group);
        }
      } else {
        const auto account = 1 + static_cast<std::uint32_t>(random.below(3));
        const std::uint32_t victim = p.victim(account);
        bool any = false;
        for (const std::uint32_t group : queued) {
          any = any || p.groups[group].account == account;
        }
        REQUIRE((victim != kNone) == any);
        if (victim == kNone) continue;
        REQUIRE(queued.erase(victim) == 1);
        CHECK(p.groups[victim].account == account);
        p.evict(victim);
        std::erase(all, victim);
      }
      std::uint32_t counted = 0;
      const char* wrong = p.policy->audit(counted);
      REQUIRE_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
      REQUIRE(counted == queued.size());
    }
  }
}

}  // namespace simm::store::testing
