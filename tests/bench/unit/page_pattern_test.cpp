#include "daemon/tools/simm-bench/page_pattern.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace simm::bench::page_pattern_test {

using Page = std::vector<unsigned char>;

Page page_of(const char* key, std::size_t bytes) {
  Page page(bytes);
  fill_page(key, page.data(), bytes);
  return page;
}

TEST_CASE("what was filled is right, at any length") {
  for (const std::size_t bytes : {1u, 7u, 8u, 9u, 4'096u, 17'568u, 70'273u}) {
    const Page page = page_of("abc__k", bytes);
    CHECK(count_wrong_bytes("abc__k", page.data(), bytes) == 0);
  }
}

TEST_CASE("one flipped bit is one wrong byte, wherever it is") {
  Page page = page_of("abc__k", 1'003);
  for (std::size_t i = 0; i < page.size(); ++i) {
    const auto bit = static_cast<unsigned char>(1u << (i % 8));
    page[i] ^= bit;
    CHECK(count_wrong_bytes("abc__k", page.data(), page.size()) == 1);
    page[i] ^= bit;
  }
}

TEST_CASE("another key's page, a shifted page and zeros are wrong almost everywhere") {
  const Page page = page_of("abc__k", 8'192);
  const Page other = page_of("abd__k", 8'192);
  const Page zeros(8'192);
  CHECK(count_wrong_bytes("abd__k", page.data(), page.size()) > 8'000);
  CHECK(count_wrong_bytes("abc__k", zeros.data(), zeros.size()) > 8'000);
  CHECK(count_wrong_bytes("abc__k", page.data() + 8, page.size() - 8) > 8'000);
  Page mixed = page;
  std::memcpy(mixed.data() + 4'096, other.data() + 4'096, 4'096);
  CHECK(count_wrong_bytes("abc__k", mixed.data(), mixed.size()) > 4'000);
  CHECK(count_wrong_bytes("abc__k", mixed.data(), 4'096) == 0);
}

}  // namespace simm::bench::page_pattern_test
