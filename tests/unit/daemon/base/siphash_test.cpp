#include "daemon/base/siphash.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <span>

namespace simm::base {

TEST_CASE("siphash: values that OpenSSL gives for the bytes 0, 1, 2 and so on") {
  std::array<unsigned char, 64> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  std::array<std::uint64_t, 8> words;
  static_assert(sizeof words == sizeof bytes);
  std::memcpy(words.data(), bytes.data(), sizeof words);
  const SipKey key{words[0], words[1]};
  const auto of = [&](std::size_t count) {
    return SipHash::of(key, std::span(words).first(count));
  };
  CHECK(of(0) == 0xabac0158050fc4dc);
  CHECK(of(1) == 0x369095118d299a8e);
  CHECK(of(6) == 0x9f3143f8df074c46);
  CHECK(of(8) == 0xf17997ec4b4a6065);
}

}  // namespace simm::base
