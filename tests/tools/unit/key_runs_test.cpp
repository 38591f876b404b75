#include "daemon/tools/simmctl/key_runs.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>

namespace simm::ctl {
namespace {

std::string hash_of(unsigned number) {
  char text[33];
  std::snprintf(text, sizeof text, "%016x%016x", number, ~number);
  return text;
}

TEST_CASE("keys that are stored and removed in turn are two lines") {
  KeyRuns runs;
  for (unsigned i = 0; i < 3; ++i) {
    runs.add(true, hash_of(i));
    runs.add(false, hash_of(100 + i));
  }
  CHECK(runs.take() == "stored " + hash_of(0) + hash_of(1) + hash_of(2) + "\nremoved " +
                           hash_of(100) + hash_of(101) + hash_of(102) + "\n");
  CHECK(runs.take().empty());
}

TEST_CASE("the events of one key are in their order") {
  KeyRuns runs;
  for (const bool is_there : {true, false, true}) runs.add(is_there, hash_of(7));
  CHECK(runs.take() ==
        "stored " + hash_of(7) + "\nremoved " + hash_of(7) + "\nstored " + hash_of(7) + "\n");
}

TEST_CASE("what is said comes behind what was told before it") {
  KeyRuns runs;
  runs.add(false, hash_of(1));
  runs.say("cleared");
  runs.add(true, hash_of(1));
  CHECK(runs.take() == "removed " + hash_of(1) + "\ncleared\nstored " + hash_of(1) + "\n");
}

TEST_CASE("an index that is made of the lines is the one that is made of the events") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 dice(seed);
  for (const unsigned keys : {1U, 5U, 300U, 100'000U}) {
    KeyRuns runs;
    std::set<std::string> wanted;
    std::map<std::string, int> events;
    std::string text;
    for (int i = 0; i < 20'000; ++i) {
      const std::string hash = hash_of(static_cast<unsigned>(dice() % keys));
      const bool is_there = dice() % 2 == 0;
      is_there ? (void)wanted.insert(hash) : (void)wanted.erase(hash);
      ++events[hash];
      runs.add(is_there, hash);
      if (dice() % 3000 == 0) text += runs.take();
    }
    text += runs.take();
    std::istringstream lines(text);
    std::set<std::string> index;
    std::string what;
    std::string hashes;
    while (lines >> what >> hashes) {
      REQUIRE(hashes.size() % 32 == 0);
      REQUIRE(hashes.size() / 32 <= KeyRuns::kKeysPerRunMax);
      for (std::size_t at = 0; at < hashes.size(); at += 32) {
        const std::string hash = hashes.substr(at, 32);
        what == "stored" ? (void)index.insert(hash) : (void)index.erase(hash);
        --events[hash];
      }
    }
    CHECK(index == wanted);
    for (const auto& [hash, left] : events) REQUIRE(left == 0);
  }
}

}  // namespace
}  // namespace simm::ctl
