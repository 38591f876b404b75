#include <doctest/doctest.h>

#include <set>

#include "daemon/tools/simm-bench/kv_session.h"

namespace bench_keys_test {

using simm::bench::bench_keys;

TEST_CASE("bench keys: kinds and numbers have keys of their own, the tail says who reads them") {
  std::set<std::string> all;
  for (const char* kind : {"one", "other"}) {
    for (const char* tail : {simm::bench::kOneRanksTail, simm::bench::kAllRanksTail}) {
      for (const std::string& key : bench_keys(kind, 5, 3, tail)) {
        CHECK(key.substr(64) == tail);
        CHECK(key.find_first_not_of("0123456789abcdef") == 64);
        all.insert(key);
      }
    }
  }
  CHECK(all.size() == 2 * 2 * 3);
  CHECK(bench_keys("one", 6, 1) == std::vector<std::string>{bench_keys("one", 5, 2)[1]});
}

}  // namespace bench_keys_test
