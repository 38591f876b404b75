#include "daemon/engine/group_key.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "daemon/base/random.h"

namespace group_key_test {

using simm::engine::group_of;

const std::string kDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST_CASE("the parts of one page share a group") {
  CHECK(group_of(kDigest + "_0_k") == kDigest);
  CHECK(group_of(kDigest + "_7_v") == kDigest);
  CHECK(group_of(kDigest + "__k") == kDigest);
  CHECK(group_of(kDigest + ".draft") == kDigest);
  CHECK(group_of("tag-" + kDigest + "_0_k") == "tag-" + kDigest);
  CHECK(group_of(kDigest) == kDigest);
}

TEST_CASE("a digest has at least 32 hex digits in one run") {
  const std::string half = kDigest.substr(0, 32);
  CHECK(group_of(half + "_x") == half);
  CHECK(group_of(kDigest.substr(0, 31) + "_x") == kDigest.substr(0, 31) + "_x");
  CHECK(group_of(kDigest.substr(0, 31) + "-" + half + "!z") == kDigest.substr(0, 31) + "-" + half);
  CHECK(group_of("ABCDEF0123456789ABCDEFabcdef0123_k") == "ABCDEF0123456789ABCDEFabcdef0123");
}

TEST_CASE("without a digest the braces decide, else the whole key") {
  CHECK(group_of("user:{42}:k") == "42");
  CHECK(group_of("user:{42}:{43}") == "42");
  CHECK(group_of("user:{}:{43}") == "user:{}:{43}");
  CHECK(group_of("user:{42") == "user:{42");
  CHECK(group_of("user:}42{") == "user:}42{");
  CHECK(group_of("plain") == "plain");
  CHECK(group_of("").empty());
  CHECK(group_of("{a}" + kDigest + "_k") == "{a}" + kDigest);  // the digest goes first
}

// The definition, character by character.
std::string slow_group_of(const std::string& key) {
  const std::string hex = "0123456789abcdefABCDEF";
  std::size_t run = 0;
  for (std::size_t at = 0; at <= key.size(); ++at) {
    if (at < key.size() && hex.find(key[at]) != std::string::npos) {
      ++run;
    } else {
      if (run >= 32) return key.substr(0, at);
      run = 0;
    }
  }
  const std::size_t open = key.find('{');
  const std::size_t close = key.find('}', open == std::string::npos ? open : open + 1);
  if (open == std::string::npos || close == std::string::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

TEST_CASE("every byte value at every place is classified as the definition says") {
  for (int value = 0; value < 256; ++value) {
    for (std::size_t at = 0; at < 40; ++at) {
      std::string key = kDigest.substr(0, 40) + "_k";
      key[at] = static_cast<char>(value);
      CHECK(group_of(key) == slow_group_of(key));
    }
  }
}

TEST_CASE("random keys: the group is what the definition says") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_engine -tc='random keys*'");
  simm::base::SeededRandom random(seed);
  const std::string alphabet = "0123456789abcdefABCDEF{}_g";
  for (int i = 0; i < 20'000; ++i) {
    std::string key;
    const std::uint64_t length = random.below(120);
    const std::uint64_t spread = random.one_in(2) ? alphabet.size() : 22;
    while (key.size() < length) {
      key += random.one_in(30) ? '_' : alphabet[random.below(spread)];
    }
    CHECK(group_of(key) == slow_group_of(key));
  }
}

}  // namespace group_key_test
