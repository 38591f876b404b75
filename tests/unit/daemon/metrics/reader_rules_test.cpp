#include "daemon/metrics/reader_rules.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace reader_rules_test {

using namespace simm;
using control::Reader;
using control::ReaderRules;

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";

Reader reader(std::string_view host, bool is_local = true) {
  Reader made;
  made.host = host;
  made.address = is_local ? "127.0.0.1" : "10.0.0.7";
  made.is_local = is_local;
  return made;
}

unsigned code_of(const std::optional<ReaderRules::Refusal>& refused) {
  return refused ? refused->code : 200;
}

TEST_CASE("without a token, readers on this host alone see the page") {
  const ReaderRules rules({}, {});
  CHECK_FALSE(rules.asks_for_token());
  CHECK(code_of(rules.refuse_page(reader("localhost"))) == 200);
  CHECK(code_of(rules.refuse_status(reader("localhost"))) == 200);
  CHECK(code_of(rules.refuse_page(reader("10.0.0.7", false))) == 403);
  CHECK(code_of(rules.refuse_status(reader("10.0.0.7", false))) == 403);
  // From another host, by whatever name.
  CHECK(code_of(rules.refuse_status(reader("localhost", false))) == 403);
}

TEST_CASE("the host is localhost, the address of the connection, or a configured name") {
  const ReaderRules rules(std::string(kToken), {"simm1.example.com"});
  const std::vector<std::pair<std::string, bool>> cases = {{"localhost", true},
                                                           {"LocalHost:1", true},
                                                           {"127.0.0.1:9470", true},
                                                           {"127.3.2.1", true},
                                                           {"[::1]:9470", true},
                                                           {"10.0.0.7:9470", true},
                                                           {"simm1.example.com", true},
                                                           {"SIMM1.Example.COM:80", true},
                                                           {"10.0.0.8", false},
                                                           {"example.com", false},
                                                           {"simm1.example.com.", false},
                                                           {"x.simm1.example.com", false},
                                                           {"", false},
                                                           {":9470", false},
                                                           {"localhost:", true},
                                                           {"localhost:80x", false},
                                                           {"[::1", false},
                                                           {"::1", false},
                                                           {"[10.0.0.7", false},
                                                           {"127.0.0.1.evil.com", false},
                                                           {"0.0.0.0", false},
                                                           {"localhost, evil", false},
                                                           {"simm1.example.com/x", false},
                                                           {"[fe80::1]", false},
                                                           {"simm1.example.com\t", false}};
  for (const auto& sent : cases) {
    const std::string& host = sent.first;
    CAPTURE(host);
    CHECK(code_of(rules.refuse_page(reader(host, false))) == (sent.second ? 200 : 400));
  }
}

TEST_CASE("a page of another site is refused, whatever it knows") {
  const ReaderRules rules(std::string(kToken), {});
  const std::string bearer = "Bearer " + std::string(kToken);
  const auto code = [&](std::string_view origin, std::string_view site) {
    Reader here = reader("localhost:9470");
    here.origin = origin;
    here.site = site;
    here.authorization = bearer;
    return code_of(rules.refuse_status(here));
  };
  CHECK(code("", "") == 200);
  CHECK(code("http://localhost:9470", "same-origin") == 200);
  CHECK(code("HTTPS://LOCALHOST:9470", "none") == 200);
  for (const char* origin :
       {"null", "http://evil.example.com", "http://localhost", "localhost:9470",
        "http://localhost:9471", "http://localhost:9470.evil.com", "http://"}) {
    CAPTURE(origin);
    CHECK(code(origin, "") == 403);
  }
  for (const char* site : {"cross-site", "same-site", "x"}) CHECK(code("", site) == 403);
}

TEST_CASE("the token opens the figures, and nothing like it does") {
  const ReaderRules rules(std::string(kToken), {});
  const auto code = [&](const std::string& authorization) {
    Reader here = reader("localhost");
    here.authorization = authorization;
    CHECK(code_of(rules.refuse_page(here)) == 200);
    return code_of(rules.refuse_status(here));
  };
  const std::string token(kToken);
  CHECK(code("Bearer " + token) == 200);
  CHECK(code("bearer " + token) == 200);
  for (const std::string& wrong :
       {std::string(), std::string("Bearer"), std::string("Bearer "), token,
        "Bearer " + token + " ", "Bearer  " + token, "Bearer " + token.substr(1),
        "Bearer " + std::string(32, 'x'), "Basic " + token, "Bearer " + token + token}) {
    CAPTURE(wrong);
    CHECK(code(wrong) == 401);
  }
  const auto refused = rules.refuse_status(reader("localhost"));
  REQUIRE(refused.has_value());
  CHECK(refused->more.find("Bearer") != std::string_view::npos);
}

TEST_CASE("the token's file and the names are checked, and the errors say what to do") {
  const test_support::TemporaryDirectory directory;
  const auto file = [&](const std::string& text) {
    const std::string path = directory / "token";
    std::ofstream(path) << text;
    CHECK(::chmod(path.c_str(), 0600) == 0);
    return path;
  };
  const auto error_of = [](const std::string& path, const std::string& names) {
    base::Config config = base::default_config();
    config.metrics.token_file = path;
    config.metrics.host_names = names;
    const auto made = ReaderRules::make(config);
    return made ? std::string() : made.error().context;
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(error_of("", "").empty());
  CHECK(error_of(file(std::string(kToken) + "\n"), "a.example.com, B").empty());
  CHECK(holds(error_of(file("short"), ""), "metrics.token_file"));
  CHECK(holds(error_of(file("with blanks, which no header can carry"), ""), "letters, digits"));
  const std::string open = file(std::string(kToken));
  CHECK(::chmod(open.c_str(), 0640) == 0);
  CHECK(holds(error_of(open, ""), "chmod 600"));
  CHECK(holds(error_of("@none", ""), "LoadCredential"));
  CHECK(holds(error_of("", "a b"), "metrics.host_names"));
  CHECK(holds(error_of("", "a:80"), "metrics.host_names = a:80"));
}

}  // namespace reader_rules_test
