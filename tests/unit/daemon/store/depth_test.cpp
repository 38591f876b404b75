// What the depth of a put does: the tails of prefixes leave before their heads.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {
namespace {

constexpr std::uint64_t kPrefixPage = 1024;
constexpr std::uint32_t kPrefixPages = 8;

// An arena of 32 pages: 24 old ones fill it but for a prefix of eight, whose pages come one by one.
struct Prefix : StoreFixture {
  Prefix(EvictionKind kind, bool with_depth) : StoreFixture(32 * kPrefixPage, of(kind)) {
    for (int i = 0; i < 24; ++i) REQUIRE(put(old(i), kPrefixPage));
    now += 1000 * kSecond;
    for (std::uint32_t depth = 1; depth <= kPrefixPages; ++depth) {
      put_at(depth, with_depth ? depth : 0);
      now += kSecond / 10;
    }
  }
  static StoreConfig of(EvictionKind kind) {
    StoreConfig config = quiet();
    config.eviction = kind;
    return config;
  }
  static OwnedKey old(int i) { return OwnedKey("old" + std::to_string(i)); }
  static OwnedKey page(std::uint32_t depth) { return OwnedKey("page" + std::to_string(depth)); }
  void put_at(std::uint32_t at, std::uint32_t depth) {
    const OwnedKey key = page(at);
    WriteRequest request{key, kPrefixPage};
    request.depth = depth;
    const WriteResult result = store->begin_write(request, now);
    REQUIRE(result.start == WriteStart::reserved);
    store->publish(result.reservation, fill(result.reservation, 1), 1, now);
  }
  // The pages in the order in which they leave.
  std::vector<std::uint32_t> leave() {
    std::vector<std::uint32_t> gone;
    for (int i = 0; i < 100 && gone.size() < kPrefixPages; ++i) {
      REQUIRE(put(OwnedKey("new" + std::to_string(i)), kPrefixPage));
      for (std::uint32_t depth = 1; depth <= kPrefixPages; ++depth) {
        const bool known = std::find(gone.begin(), gone.end(), depth) != gone.end();
        if (!known && !has(page(depth))) gone.push_back(depth);
      }
    }
    return gone;
  }
};

const std::vector<std::uint32_t> kByAge = {1, 2, 3, 4, 5, 6, 7, 8};

TEST_CASE("a prefix that was put from its head on, a page each time, leaves from its tail on") {
  // Steps of depth are four to the octave: 5 and 6 are one, and so are 7 and 8.
  const std::vector<std::uint32_t> tails_first = {7, 8, 5, 6, 4, 3, 2, 1};
  for (const EvictionKind kind : {EvictionKind::reuse, EvictionKind::lru}) {
    Prefix with(kind, true);
    CHECK(with.leave() == tails_first);
    Prefix without(kind, false);
    CHECK(without.leave() == kByAge);
  }
  Prefix first_in_first_out(EvictionKind::fifo, true);
  CHECK(first_in_first_out.leave() == kByAge);
}

TEST_CASE("a lease that ends, and a second use, leave the order of depth as it was") {
  Prefix f(EvictionKind::reuse, true);
  for (std::uint32_t depth = 1; depth <= kPrefixPages; ++depth) {
    f.store->touch(f.page(depth), kSecond, f.now);
    f.now += kSecond / 100;
  }
  f.now += 10 * kSecond;
  while (f.store->do_work(f.now) > 0) f.audit();
  CHECK(f.leave() == std::vector<std::uint32_t>{7, 8, 5, 6, 4, 3, 2, 1});
}

TEST_CASE("however deep a page is, what is older leaves before it") {
  Prefix f(EvictionKind::reuse, true);
  for (int i = 0; i < 24; ++i) REQUIRE(f.put(OwnedKey("more" + std::to_string(i)), kPrefixPage));
  for (int i = 0; i < 24; ++i) CHECK_FALSE(f.has(f.old(i)));
  for (std::uint32_t depth = 1; depth <= kPrefixPages; ++depth) CHECK(f.has(f.page(depth)));
}

}  // namespace
}  // namespace simm::store::testing
