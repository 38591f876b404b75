#include "daemon/cluster/backoff.h"

#include <doctest/doctest.h>

#include <array>
#include <set>

namespace backoff_test {

using namespace simm;
using cluster::Backoff;

TEST_CASE("waits double up to the longest, and are random in their upper half") {
  base::SeededRandom random(1);
  Backoff backoff;
  base::TimeNs longest_ns = Backoff::kFirstNs;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const base::TimeNs wait_ns = backoff.next_wait_ns(random);
    CHECK(wait_ns >= longest_ns / 2);
    CHECK(wait_ns < longest_ns);
    longest_ns = std::min(2 * longest_ns, Backoff::kLongestNs);
  }
  CHECK(longest_ns == Backoff::kLongestNs);
}

TEST_CASE("one that looks for a peer that is away waits no longer than it was told") {
  base::SeededRandom random(4);
  Backoff backoff;
  for (int attempt = 0; attempt < 20; ++attempt) {
    CHECK(backoff.next_wait_ns(random, Backoff::kLookNs) < Backoff::kLookNs);
  }
  CHECK(backoff.next_wait_ns(random) >= Backoff::kLongestNs / 2);
}

TEST_CASE("those who lost the same peer do not come back together") {
  base::SeededRandom random(2);
  std::set<base::TimeNs> waits_ms;
  for (int dialer = 0; dialer < 100; ++dialer) {
    waits_ms.insert(Backoff().next_wait_ns(random) / base::kNsPerMs);
  }
  CHECK(waits_ms.size() > 15);
}

TEST_CASE("a thousand that lost one manager come back one by one, a few need not wait") {
  base::SeededRandom random(5);
  std::array<int, 10> in_tenth{};
  for (int daemon = 0; daemon < 1000; ++daemon) {
    const base::TimeNs wait_ns = Backoff::herd_wait_ns(random, 1000);
    REQUIRE(wait_ns < Backoff::kLongestNs);
    ++in_tenth.at(wait_ns / (Backoff::kLongestNs / 10));
    CHECK(Backoff::herd_wait_ns(random, 50) == 0);
    CHECK(Backoff::herd_wait_ns(random, 100) < 100 * base::kNsPerMs);
    // However many there are, a manager finds them in the time for which it keeps their names.
    CHECK(Backoff::herd_wait_ns(random, 100'000) < Backoff::kLongestNs);
  }
  for (const int count : in_tenth) {
    CHECK(count > 60);
    CHECK(count < 150);
  }
}

TEST_CASE("only a connection that lasted starts the waits anew") {
  base::SeededRandom random(3);
  const auto wait_after = [&](base::TimeNs lasted_ns) {
    Backoff backoff;
    for (int failed = 0; failed < 10; ++failed) (void)backoff.next_wait_ns(random);
    backoff.on_connected(1000);
    CHECK(backoff.on_lost(1000 + lasted_ns) == (lasted_ns >= Backoff::kStableNs));
    return backoff.next_wait_ns(random);
  };
  CHECK(wait_after(Backoff::kStableNs - 1) >= Backoff::kLongestNs / 2);
  CHECK(wait_after(Backoff::kStableNs) < Backoff::kFirstNs);
}

}  // namespace backoff_test
