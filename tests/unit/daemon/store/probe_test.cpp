// exists() keeps what it found for a while. It is no use: who only asks for its objects again and
// again does not push out those of others.
#include <string>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

constexpr std::uint64_t kProbedPage = 1024;
constexpr int kProbedStorePages = 64;

// A full store of which a third was put once and is only probed since.
struct ProbedStore {
  explicit ProbedStore(EvictionKind kind) : f(kProbedStorePages * kProbedPage, of(kind)) {
    for (int i = 0; i < 20; ++i) REQUIRE(f.put(junk(i), kProbedPage));
    for (int i = 0; i < 10; ++i) REQUIRE(f.put(read(i), kProbedPage));
  }
  static StoreConfig of(EvictionKind kind) {
    StoreConfig config = StoreFixture::quiet();
    config.eviction = kind;
    return config;
  }
  static OwnedKey junk(int i) { return OwnedKey("junk" + std::to_string(i)); }
  static OwnedKey read(int i) { return OwnedKey("read" + std::to_string(i)); }
  // A page is put every two seconds; every half minute somebody asks for all the junk, and others
  // read theirs.
  void pass(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      f.now += kSecond;
      f.store->do_work(f.now);
      if (second % 2 == 0) REQUIRE(f.put(OwnedKey("new" + std::to_string(number++)), kProbedPage));
      if (second % 30 != 0) continue;
      for (int i = 0; i < 20; ++i) {
        static_cast<void>(f.store->exists(junk(i), 15 * kSecond, f.now));
      }
      for (int i = 0; i < 10; ++i) f.store->touch(read(i), 15 * kSecond, f.now);
    }
  }
  int left(OwnedKey (*name)(int), int count) {
    int there = 0;
    for (int i = 0; i < count; ++i) there += f.has(name(i)) ? 1 : 0;
    return there;
  }

  StoreFixture f;
  int number = 0;
};

}  // namespace

TEST_CASE("what is only probed leaves as if nobody asked for it") {
  for (const EvictionKind kind : all_eviction_kinds()) {
    CAPTURE(static_cast<int>(kind));
    ProbedStore s(kind);
    s.pass(600);
    CHECK(s.left(ProbedStore::junk, 20) == 0);
    // A use is one: who is read every half minute stays.
    if (kind != EvictionKind::fifo) CHECK(s.left(ProbedStore::read, 10) == 10);
  }
}

TEST_CASE("a probe is a lease: what it found stays for that time") {
  for (const EvictionKind kind : all_eviction_kinds()) {
    ProbedStore s(kind);
    for (int i = 0; i < 10; ++i) REQUIRE(s.f.store->exists(s.junk(i), 60 * kSecond, s.f.now) > 0);
    for (int i = 0; i < 200; ++i) {
      s.f.now += kSecond / 8;
      REQUIRE(s.f.put(OwnedKey("n" + std::to_string(i)), kProbedPage));
    }
    CHECK(s.left(ProbedStore::junk, 20) == 10);
    // When the lease is over it goes first, in the order in which it was put.
    s.f.now += 62 * kSecond;
    s.f.store->do_work(s.f.now);
    for (int i = 0; i < 5; ++i) REQUIRE(s.f.put(OwnedKey("m" + std::to_string(i)), kProbedPage));
    CHECK(s.left(ProbedStore::junk, 20) == 5);
    for (int i = 5; i < 10; ++i) CHECK(s.f.has(s.junk(i)));
  }
}

}  // namespace simm::store::testing
