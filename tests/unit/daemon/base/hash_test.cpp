#include "daemon/base/hash.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "daemon/base/random.h"
#include "daemon/base/real_clock.h"

namespace hash_test {

using namespace simm::base;

TEST_CASE("a digest of pieces is the digest of the whole, however it is cut") {
  SeededRandom random(7);
  std::string payload(100'003, '\0');
  for (char& c : payload) c = static_cast<char>(random.next());
  PayloadDigest digest;
  for (int round = 0; round < 20; ++round) {
    digest.begin();
    for (std::size_t at = 0; at < payload.size();) {
      const std::size_t piece = std::min<std::size_t>(1 + random.below(9000), payload.size() - at);
      digest.add(payload.data() + at, piece);
      at += piece;
    }
    REQUIRE(digest.value() == payload_digest(payload.data(), payload.size()));
  }
  // The published xxh3-64 of nothing: the digest is stored and crosses the wire, so it is a format.
  CHECK(payload_digest("", 0) == 0x2d06800538d394c2u);
}

TEST_CASE("key hashes depend on the seed and on every byte") {
  const KeyHasher one(1), same(1), other(2);
  CHECK(one("abc") == same("abc"));
  CHECK_FALSE(one("abc") == other("abc"));
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(one("key" + std::to_string(i)).low);
  CHECK(seen.size() == 1000);
  CHECK_FALSE(one(std::string_view("a\0", 2)) == one("a"));
}

TEST_CASE("a seeded generator repeats itself and below() stays below") {
  SeededRandom a(42), b(42), c(43);
  CHECK(a.next() == b.next());
  CHECK(a.next() != c.next());
  bool all[6] = {};
  for (int i = 0; i < 1000; ++i) all[a.below(6)] = true;
  for (const bool hit : all) CHECK(hit);
  CHECK(a.below(1) == 0);
}

TEST_CASE("the system's generator does not repeat itself") {
  SystemRandom random;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 500; ++i) seen.insert(random.next());
  CHECK(seen.size() == 500);
}

TEST_CASE("the real clock does not go back") {
  RealClock clock;
  TimeNs before = clock.now_ns();
  for (int i = 0; i < 1000; ++i) {
    const TimeNs now = clock.now_ns();
    REQUIRE(now >= before);
    before = now;
  }
}

}  // namespace hash_test
