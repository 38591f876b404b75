#include "daemon/store/eviction/depth_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "daemon/base/random.h"

namespace simm::store::testing {

namespace {

// A queue of groups whose numbers are 1, 2, 3 in the order of their making.
struct QueueUnderTest {
  explicit QueueUnderTest(std::uint32_t capacity)
      : memory(std::size_t{capacity} + 1), groups(memory.data(), capacity) {}

  std::uint32_t make(std::uint32_t depth, base::TimeNs used_ns) {
    const std::uint32_t group = groups.allocate();
    groups[group].depth_step = DepthQueue::step_of(depth);
    groups[group].used_ns = used_ns;
    queue.enqueue(groups, group);
    return group;
  }
  std::vector<std::uint32_t> order() const {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t n = queue.front(); n != kNone; n = queue.next(groups, n)) {
      numbers.push_back(n);
    }
    return numbers;
  }

  std::vector<Group> memory;
  Table<Group> groups;
  DepthQueue queue;
};

using Numbers = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("steps of depth: none for none, then four to the octave, up to any depth") {
  CHECK(DepthQueue::step_of(0) == 0);
  CHECK(DepthQueue::step_of(1) == 1);
  CHECK(DepthQueue::step_of(2) == 2);
  CHECK(DepthQueue::step_of(4) == 4);
  CHECK(DepthQueue::step_of(5) == 5);
  CHECK(DepthQueue::step_of(6) == 5);
  for (std::uint32_t depth = 1; depth < 100'000; ++depth) {
    const int from = DepthQueue::step_of(depth);
    REQUIRE(DepthQueue::step_of(depth + 1) - from <= 1);
    REQUIRE(DepthQueue::step_of(depth + 1) >= from);
    REQUIRE(DepthQueue::step_of(2 * depth + 3) == from + 4);
  }
  CHECK(DepthQueue::step_of(~std::uint32_t{0}) == DepthQueue::kSteps - 1);
}

TEST_CASE("of one time the deeper ones are first, whatever the order in which they came") {
  QueueUnderTest head_first(8);
  for (const std::uint32_t depth : {1u, 2u, 3u, 8u}) head_first.make(depth, 1000);
  CHECK(head_first.order() == Numbers{4, 3, 2, 1});
  QueueUnderTest tail_first(8);
  for (const std::uint32_t depth : {8u, 3u, 2u, 1u}) tail_first.make(depth, 1000);
  CHECK(tail_first.order() == Numbers{1, 2, 3, 4});
  QueueUnderTest mixed(8);
  for (const std::uint32_t depth : {2u, 0u, 2u, 0u, 100u, 2u}) mixed.make(depth, 1000);
  CHECK(mixed.order() == Numbers{5, 1, 3, 6, 2, 4});
  // Without hints: a queue.
  QueueUnderTest unknown(8);
  for (base::TimeNs used_ns = 10; used_ns < 15; ++used_ns) unknown.make(0, used_ns);
  CHECK(unknown.order() == Numbers{1, 2, 3, 4, 5});
}

TEST_CASE("depth counts only among those of nearly the same age") {
  QueueUnderTest q(8);
  q.make(1, 1000);
  q.make(1, 129'000);  // the oldest is 128,000 old: this span is of 1,000
  q.make(2, 130'000);
  q.make(3, 130'001);
  CHECK(q.order() == Numbers{1, 3, 2, 4});
  // Used before these, but it comes back now: among the newest.
  q.make(9, 60'000);
  CHECK(q.order() == Numbers{1, 3, 2, 5, 4});
}

TEST_CASE("the newest is the deepest of the last span, while that has any") {
  QueueUnderTest q(8);
  CHECK(q.queue.newest(q.groups) == kNone);
  q.make(9, 1000);
  const std::uint32_t shallow = q.make(2, 2000);
  CHECK(q.queue.newest(q.groups) == shallow);
  const std::uint32_t deep = q.make(5, 2000);
  CHECK(q.queue.newest(q.groups) == deep);
  q.queue.remove(q.groups, deep);
  CHECK(q.queue.newest(q.groups) == shallow);
  q.queue.remove(q.groups, shallow);
  CHECK(q.queue.newest(q.groups) == kNone);
}

TEST_CASE("who was used before the oldest comes back before it, several in their order") {
  QueueUnderTest q(10);
  q.make(1, 10'000);
  q.make(1, 200'000);
  q.make(9, 500);
  q.make(1, 500);
  q.make(1, 600);
  CHECK(q.order() == Numbers{3, 4, 5, 1, 2});
  q.make(1, 400);
  q.make(1, 450);
  CHECK(q.order() == Numbers{6, 7, 3, 4, 5, 1, 2});
  q.queue.remove(q.groups, 7);
  q.make(1, 420);
  CHECK(q.order() == Numbers{6, 8, 3, 4, 5, 1, 2});
  CHECK(q.queue.audit(q.groups) == nullptr);
}

TEST_CASE("random depth queues: spans in the order of time, each by depth, each depth as it came") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='random depth queues*'");
  base::SeededRandom random(seed);
  QueueUnderTest q(200);
  struct Queued {
    std::uint32_t group;
    std::uint64_t span;
    std::uint64_t came;
  };
  std::vector<Queued> model;
  std::uint64_t span = 0;
  base::TimeNs now_ns = 1'000'000;
  base::TimeNs span_end_ns = 0;
  for (std::uint64_t step = 0; step < 20'000; ++step) {
    now_ns += random.below(2'000);
    if (random.below(5) < 3 && !q.groups.full()) {
      if (now_ns > span_end_ns) {
        ++span;
        span_end_ns = now_ns;
        if (!model.empty()) span_end_ns += (now_ns - q.groups[q.queue.front()].used_ns) / 128;
      }
      const std::uint32_t depth = static_cast<std::uint32_t>(random.below(12));
      model.push_back({q.make(depth, now_ns), span, step});
    } else if (!model.empty()) {
      const auto at = static_cast<std::ptrdiff_t>(random.below(model.size()));
      const std::uint32_t group = model[static_cast<std::size_t>(at)].group;
      q.queue.remove(q.groups, group);
      q.groups.release(group);
      model.erase(model.begin() + at);
    }
    std::sort(model.begin(), model.end(), [&](const Queued& a, const Queued& b) {
      if (a.span != b.span) return a.span < b.span;
      const int deeper = q.groups[a.group].depth_step - q.groups[b.group].depth_step;
      return deeper != 0 ? deeper > 0 : a.came < b.came;
    });
    Numbers expected;
    for (const Queued& each : model) expected.push_back(each.group);
    REQUIRE(q.order() == expected);
    const char* wrong = q.queue.audit(q.groups);
    REQUIRE_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
  }
}

}  // namespace simm::store::testing
