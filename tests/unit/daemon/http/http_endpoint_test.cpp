#include "daemon/http/http_endpoint.h"

#include <doctest/doctest.h>

#include <string>

using simm::Status;
using simm::http::HttpEndpoint;

TEST_CASE("http endpoint: what is one, and how it is written") {
  const HttpEndpoint plain = HttpEndpoint::parse("http://10.0.0.7:2379").value();
  CHECK(plain == HttpEndpoint{false, "10.0.0.7", "2379"});
  const HttpEndpoint secure = HttpEndpoint::parse("https://[fd00::7]:443/").value();
  CHECK(secure == HttpEndpoint{true, "fd00::7", "443"});
  CHECK(secure.text() == "https://[fd00::7]:443");
  CHECK(HttpEndpoint::parse("http://etcd-1.example.org:1").value().text() ==
        "http://etcd-1.example.org:1");
}

TEST_CASE("http endpoint: what is none is named, without the bytes that could forge a line") {
  for (const char* wrong :
       {"", "10.0.0.7:2379", "ftp://a:1", "http://", "http://a", "http://a:", "http://:1",
        "http://a:0", "http://a:65536", "http://a:1x", "http://a b:1", "http://a/b:1",
        "http://a@b:1", "http://fd00::7:1:", "http://[]:1", "http://a:1/path"}) {
    CAPTURE(wrong);
    const auto parsed = HttpEndpoint::parse(wrong);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.status() == Status::invalid_argument);
    CHECK(parsed.error().context.find("write http://") != std::string::npos);
  }
  CHECK(HttpEndpoint::parse("http://a\n:1").error().context.find('\n') == std::string::npos);
}
