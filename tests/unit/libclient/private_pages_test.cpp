// PrivatePages against a model that remembers every address.
#include "libclient/private_pages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

namespace private_pages_test {

using simm::detail::PrivatePages;

TEST_CASE("private pages: parts that meet are one, what was shared again has gone") {
  PrivatePages pages;
  CHECK(pages.changes() == 0);
  CHECK_FALSE(pages.touches(0, 1000));
  pages.add(100, 200);
  pages.add(200, 300);
  pages.add(50, 120);
  CHECK(pages.bytes(0, 1000) == 250);
  CHECK(pages.bytes(290, 1000) == 10);
  CHECK(pages.touches(299, 300));
  CHECK_FALSE(pages.touches(300, 400));
  CHECK_FALSE(pages.touches(0, 50));
  pages.forget(120, 130, pages.changes());
  CHECK(pages.bytes(0, 1000) == 240);
  CHECK_FALSE(pages.touches(120, 130));
}

TEST_CASE("private pages: a look that is older than a change makes nothing shared") {
  PrivatePages pages;
  pages.add(0, 10);
  const std::uint64_t seen = pages.changes();
  pages.add(20, 30);
  pages.forget(0, 30, seen);
  CHECK(pages.bytes(0, 30) == 20);
}

TEST_CASE("private pages: random use is what the model says") {
  const char* const given = std::getenv("SIMM_TEST_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  INFO("repeat: SIMM_TEST_SEED=" << seed << " unit_client -tc='private pages: random*'");
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    PrivatePages pages;
    std::vector<int> model(64);
    for (int step = 0; step < 60; ++step) {
      const std::size_t first = random() % model.size();
      const std::size_t end = first + 1 + random() % (model.size() - first);
      const bool adds = random() % 3 != 0;
      const auto part = model.begin() + static_cast<std::ptrdiff_t>(first);
      std::fill(part, model.begin() + static_cast<std::ptrdiff_t>(end), adds ? 1 : 0);
      if (adds) {
        pages.add(first, end);
      } else {
        pages.forget(first, end, pages.changes());
      }
      for (std::size_t at = 0; at < model.size(); ++at) {
        REQUIRE(pages.touches(at, at + 1) == (model[at] != 0));
      }
      REQUIRE(pages.bytes(0, model.size()) ==
              static_cast<std::uint64_t>(std::accumulate(model.begin(), model.end(), 0)));
    }
  }
}

}  // namespace private_pages_test
