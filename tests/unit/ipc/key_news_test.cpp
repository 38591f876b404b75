#include "ipc/key_news.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace key_news_test {

using namespace simm;
using namespace simm::ipc;

TEST_CASE(
    "tokens of keys: what the specification of XXH3-128 gives, and another salt, other tokens") {
  // Of the empty text under seed 0, from the specification's own test.
  CHECK(key_token(0, "") == KeyToken{0x6001c324468d497full, 0x99aa06d3014798d8ull});
  const KeyToken one = key_token(1, "key");
  CHECK(one == key_token(1, "key"));
  CHECK_FALSE(one == key_token(2, "key"));
  CHECK_FALSE(one == key_token(1, "kez"));
}

TEST_CASE("events of keys survive the way through their form; what is no such form is refused") {
  std::vector<KeyNews> news;
  for (std::uint8_t kind = 0; kind < kKeyNewsKindCount; ++kind) {
    news.push_back({{kind, ~std::uint64_t{kind}}, 1000u + kind, static_cast<KeyNewsKind>(kind)});
  }
  std::vector<std::byte> bytes = pack_key_news(news);
  CHECK(bytes.size() == kKeyNewsBytes * news.size());
  CHECK(unpack_key_news(bytes).value() == news);
  CHECK(unpack_key_news({}).value().empty());

  CHECK(unpack_key_news(std::span(bytes).first(33)).status() == Status::invalid_argument);
  const std::vector<KeyNews> most(kKeyNewsMax);
  CHECK(unpack_key_news(pack_key_news(most)).value() == most);
  const std::vector<KeyNews> more(kKeyNewsMax + 1);
  CHECK(unpack_key_news(pack_key_news(more)).status() == Status::invalid_argument);
  bytes[24] = std::byte{kKeyNewsKindCount};
  CHECK(unpack_key_news(bytes).status() == Status::incompatible);
}

}  // namespace key_news_test
