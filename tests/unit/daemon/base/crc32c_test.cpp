#include "daemon/base/crc32c.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace simm::base {

TEST_CASE("crc32c: values of RFC 3720") {
  const auto crc = [](std::string_view bytes) { return crc32c(bytes.data(), bytes.size()); };
  CHECK(crc("123456789") == 0xe3069283);
  CHECK(crc({}) == 0);
  std::array<unsigned char, 32> bytes{};
  CHECK(crc32c(bytes.data(), bytes.size()) == 0x8a9136aa);
  bytes.fill(0xff);
  CHECK(crc32c(bytes.data(), bytes.size()) == 0x62a8ab43);
  for (unsigned i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  CHECK(crc32c(bytes.data(), bytes.size()) == 0x46dd794e);
}

TEST_CASE("crc32c: the table says what the instruction says") {
  std::uint64_t word = 0x0123456789abcdef;
  std::uint32_t by_table = ~0u;
  std::uint32_t by_cpu = ~0u;
  for (int i = 0; i < 1000; ++i) {
    by_table = crc32c_add_by_table(by_table, word);
    by_cpu = crc32c_add(by_cpu, word);
    REQUIRE(by_table == by_cpu);
    word = word * 6364136223846793005u + 1442695040888963407u;
  }
}

}  // namespace simm::base
