#include "daemon/http/base64.h"

#include <doctest/doctest.h>

#include <string>

using simm::http::from_base64;
using simm::http::to_base64;

TEST_CASE("base64: the samples of RFC 4648") {
  const std::pair<const char*, const char*> samples[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : samples) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text).value() == bytes);
  }
}

TEST_CASE("base64: every byte comes back, and what is no base64 is refused") {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 7);
  CHECK(from_base64(to_base64(bytes)).value() == bytes);
  for (const char* wrong : {"Z", "Zg=", "Zg", "Z===", "Zm9*", "====", "Zm 9"}) {
    CAPTURE(wrong);
    CHECK_FALSE(from_base64(wrong).has_value());
  }
}
