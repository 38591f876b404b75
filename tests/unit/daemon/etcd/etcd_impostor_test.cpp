// Somebody else answers in etcd's place: with nothing, with garbage, without an end, or with JSON
// that looks like etcd's. Each is an error in its time, costs little memory, and is passed over
// where another endpoint is etcd's.
#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/real_clock.h"
#include "daemon/etcd/etcd_gateway.h"
#include "tests/support/etcd_process.h"
#include "tests/support/eventually.h"
#include "tests/support/impostor.h"

namespace etcd_impostor_test {

using simm::base::RealClock;
using simm::etcd::EtcdConfig;
using simm::etcd::EtcdGateway;
using simm::test_support::EtcdProcess;
using simm::test_support::eventually;
using simm::test_support::Impostor;
using simm::test_support::ImpostorWords;

struct Case {
  std::string what;
  ImpostorWords words;
};

std::string ok_of(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

// What every call has to take for no answer.
std::vector<Case> strangers() {
  using std::chrono::milliseconds;
  constexpr std::size_t kMost = 4'000'000;  // as much as an answer may have
  const std::string head = "HTTP/1.1 200 OK\r\n";
  const std::string chunk = "1000\r\n" + std::string(4096, 'x') + "\r\n";
  return {{"says nothing", {"", "", milliseconds(0), false}},
          {"hangs up", {}},
          {"garbage", {std::string(5'000, 'G')}},
          {"a header without an end", {head, "X-More: and more\r\n"}},
          {"a body without an end", {head + "Transfer-Encoding: chunked\r\n\r\n", chunk}},
          {"a byte now and then",
           {head + "Content-Length: 1000\r\n\r\n", " ", milliseconds(20), false}},
          {"a body of 4 GiB", {head + "Content-Length: 4294967296\r\n\r\n", chunk}},
          {"a body of 64 TiB", {head + "Content-Length: 70368744177664\r\n\r\n", chunk}},
          {"not JSON", {ok_of("<html>another server</html>")}},
          {"an empty object", {ok_of("{}")}},
          {"a list", {ok_of("[1, 2]")}},
          {"levels without an end", {ok_of(R"({"header": )" + std::string(kMost, '['))}},
          {"many levels", {ok_of(R"({"header": {}, "kvs": )" + nested(kMost / 2) + "}")}},
          {"other types",
           {ok_of(R"({"header": [], "kvs": 7, "succeeded": "yes", "ID": {}, "result": 1})")}},
          {"other types behind a header",
           {ok_of(R"({"header": {"revision": []}, "kvs": [[]], "succeeded": "yes", "ID": 1.5})")}},
          {"no base64",
           {ok_of(R"({"header": {}, "kvs": [{"value": "&"}], "succeeded": true, "ID": "x"})")}},
          {"an error of no kind", {"HTTP/1.1 500 Odd\r\nContent-Length: 2\r\n\r\n{}"}}};
}

EtcdConfig config_of(const std::vector<std::string>& endpoints) {
  EtcdConfig config;
  for (const std::string& text : endpoints) {
    config.endpoints.push_back(simm::http::HttpEndpoint::parse(text).value());
  }
  return config;
}

// The most memory that this process has had since reset_peak(), in MiB.
void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}
std::uint64_t peak_mib() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::uint64_t kib = 0;
    if (word == "VmHWM:" && file >> kib) return kib / 1024;
  }
  return 0;
}

// A sanitizer has memory of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsInstrumented = true;
#else
constexpr bool kIsInstrumented = false;
#endif

}  // namespace etcd_impostor_test

TEST_CASE("etcd gateway: whatever answers in etcd's place is an error, in its time") {
  using namespace etcd_impostor_test;
  Impostor impostor;
  const auto gateway = EtcdGateway::make(config_of({"http://" + impostor.address()})).value();
  const RealClock clock;
  for (const Case& stranger : strangers()) {
    CAPTURE(stranger.what);
    impostor.say(stranger.words);
    reset_peak();
    const std::uint64_t before_mib = peak_mib();
    const auto asked_ns = clock.now_ns();
    CHECK_FALSE(gateway->get("/a").has_value());
    CHECK_FALSE(gateway->put_if({}, {"/a", "x"}).has_value());
    CHECK_FALSE(gateway->grant(4).has_value());
    CHECK_FALSE(gateway->keep(7).has_value());
    // Far more than each call's time, for a busy machine.
    CHECK(clock.now_ns() - asked_ns < 4 * 30 * simm::etcd::kCallNs);
    CHECK((kIsInstrumented || peak_mib() < before_mib + 100));
  }
}

TEST_CASE("etcd gateway: an endpoint where a stranger answers is passed over") {
  using namespace etcd_impostor_test;
  const EtcdProcess etcd;
  Impostor impostor;
  const auto endpoints = {"http://" + impostor.address(), etcd.endpoints()[0]};
  for (const Case& stranger : strangers()) {
    CAPTURE(stranger.what);
    impostor.say(stranger.words);
    const auto gateway = EtcdGateway::make(config_of(endpoints)).value();
    const std::uint64_t callers = impostor.callers();
    // The one that answered is asked first the next time, and a write is not tried twice.
    CHECK(eventually([&] { return gateway->get("/a").has_value(); }));
    CHECK(impostor.callers() > callers);
    CHECK(eventually([&] { return gateway->put_if({}, {"/a", stranger.what}).has_value(); }));
    CHECK(eventually([&] {
      const auto found = gateway->get("/a");
      return found && found->has_value() && found->value().bytes == stranger.what;
    }));
  }
}

TEST_CASE("etcd gateway: a token that no header can carry is none, and goes nowhere") {
  using namespace etcd_impostor_test;
  Impostor impostor;
  EtcdConfig config = config_of({"http://" + impostor.address()});
  config.user = "simm";
  config.password = "secret";
  const auto gateway = EtcdGateway::make(config).value();
  for (const std::string& token :
       {std::string(70'000, 'x'), std::string("two words"), std::string(R"(x\r\nHost: other)")}) {
    CAPTURE(token.substr(0, 20));
    impostor.say({ok_of(R"({"header": {}, "token": ")" + token + "\"}")});
    const std::uint64_t callers = impostor.callers();
    const auto found = gateway->get("/a");
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().context.find("/v3/auth/authenticate") != std::string::npos);
    CHECK(impostor.callers() == callers + 1);  // no request with such a token
  }
}
