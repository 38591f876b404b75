// How much of a shared-read shard one tenant can use.
#include "daemon/shared_reads/tenant_shares.h"

#include <doctest/doctest.h>

#include <vector>

namespace tenant_shares_test {

using namespace simm;
using shared_reads::TenantShares;

std::uint32_t use_all(TenantShares& shares, std::uint32_t share, std::uint64_t bytes) {
  std::uint32_t shared_reads = 0;
  for (; shares.may_use(share, bytes); ++shared_reads) shares.add_shared_read(share, bytes);
  return shared_reads;
}

TEST_CASE("one alone may use four fifths, and everybody else still finds some") {
  TenantShares shares(8, {1'000'000, 1000, 1000, 1000});
  const std::uint32_t first = shares.enter({1});
  CHECK(use_all(shares, first, 10'000) == 80);
  const std::uint32_t second = shares.enter({2});
  CHECK(use_all(shares, second, 10'000) == 16);
  CHECK(use_all(shares, shares.enter({3}), 10'000) == 3);
  // What the first one lets go is the others' as well.
  for (int i = 0; i < 40; ++i) shares.remove_shared_read(first, 10'000);
  CHECK(use_all(shares, second, 10'000) == 29);
  CHECK(use_all(shares, first, 10'000) == 1);
}

TEST_CASE(
    "shared reads, waiters and fetches are limited as bytes are, and a single one is anybody's") {
  TenantShares shares(8, {1'000'000, 10, 10, 10});
  const std::uint32_t first = shares.enter({1});
  const std::uint32_t second = shares.enter({2});
  CHECK(use_all(shares, first, 64) == 8);
  CHECK(use_all(shares, second, 64) == 1);
  CHECK(use_all(shares, shares.enter({3}), 64) == 1);
  CHECK(use_all(shares, shares.enter({4}), 64) == 0);
  std::uint32_t waiters = 0;
  for (; shares.may_wait(first); ++waiters) shares.add_waiter(first);
  CHECK(waiters == 8);
  CHECK(shares.may_wait(second));
  std::uint32_t fetches = 0;
  for (; shares.may_fetch(first); ++fetches) shares.add_fetch(first);
  CHECK(fetches == 8);
  CHECK(shares.may_fetch(second));
  shares.remove_waiter(first);
  CHECK(shares.may_wait(first));
  shares.remove_fetch(first);
  CHECK(shares.may_fetch(first));
}

TEST_CASE("whoever has more than an equal part takes room from its own copies only") {
  TenantShares shares(8, {1'000'000, 100, 100, 100});
  const std::uint32_t first = shares.enter({1});
  CHECK_FALSE(shares.exceeds_fair_part(first, 1'000'000));
  shares.add_shared_read(first, 600'000);
  CHECK(shares.exceeds_fair_part(first, 400'001));
  CHECK_FALSE(shares.exceeds_fair_part(first, 400'000));
  const std::uint32_t second = shares.enter({2});
  CHECK_FALSE(shares.exceeds_fair_part(second, 500'000));
  CHECK(shares.exceeds_fair_part(second, 500'001));
  for (int i = 0; i < 50; ++i) shares.add_shared_read(second, 64);
  CHECK(shares.exceeds_fair_part(second, 64));  // as many as its part
  CHECK(shares.exceeds_fair_part(first, 64));
  for (int i = 0; i < 50; ++i) shares.remove_shared_read(second, 64);
  CHECK_FALSE(shares.exceeds_fair_part(first, 64));
}

TEST_CASE("a share is free when its tenant has nothing left, and beyond the last one they share") {
  TenantShares shares(2, {1'000'000, 100, 100, 100});
  const std::uint32_t first = shares.enter({1});
  CHECK(shares.enter({1}) == first);
  const std::uint32_t second = shares.enter({2});
  CHECK(second != first);
  CHECK(shares.enter({3}) == 1);
  shares.leave(first);
  CHECK(shares.enter({2}) == second);
  shares.leave(first);
  CHECK(shares.enter({4}) == first);
  CHECK(shares[first].tenant == base::TenantId{4});
}

}  // namespace tenant_shares_test
