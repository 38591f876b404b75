#include "daemon/base/siphash.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <span>

namespace simm::base {

TEST_CASE("siphash: values that another implementation gives for the bytes 0, 1, 2 and so on") {
  std::array<unsigned char, 64> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  std::array<std::uint64_t, 8> words;
  static_assert(sizeof words == sizeof bytes);
  std::memcpy(words.data(), bytes.data(), sizeof words);
  const SipKey key{words[0], words[1]};
  const auto of = [&](std::size_t count) {
    return SipHash::of(key, std::span(words).first(count));
  };
  CHECK(of(0) == 0x726fdb47dd0e0e31);
  CHECK(of(1) == 0x93f5f5799a932462);
  CHECK(of(6) == 0xe612a3cb9ecba951);
  CHECK(of(8) == 0xacd2c40b8502cad8);
}

}  // namespace simm::base
