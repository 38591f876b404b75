#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "ipc/layout.h"
#include "simm/batch.h"
#include "simm/client.h"
#include "simm/simm.h"
#include "simm/trace.h"
#include "tests/unit/libclient/fake_daemon.h"

namespace trace_parent_test {

using simm::set_trace_parent;
using simm::Status;
using namespace libclient_test;

const std::string kGood = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST_CASE("a traceparent is taken, and nothing ends it") {
  CHECK(set_trace_parent(kGood) == Status::ok);
  CHECK(std::string(simm::last_error()) == "");
  CHECK(set_trace_parent("") == Status::ok);
  CHECK(set_trace_parent(kGood.substr(0, 53) + "00") == Status::ok);  // not sampled
  CHECK(set_trace_parent("cc" + kGood.substr(2) + "-what-later-versions-say") == Status::ok);
  CHECK(simm_set_trace_parent(kGood.c_str()) == SIMM_OK);
  CHECK(simm_set_trace_parent(nullptr) == SIMM_OK);
}

TEST_CASE("only a daemon that takes traces is told, of every kind of call") {
  for (const bool takes_traces : {false, true}) {
    SocketPlace place;
    FakeOptions fake;
    fake.path = place.path();
    fake.takes_traces = takes_traces;
    FakeDaemon daemon(fake);
    simm::ClientOptions options;
    options.socket_path = place.path();
    simm::Client client = simm::Client::connect(options).value();
    simm::Region region = client.allocate_region(1 << 16).value();
    const auto is_traced = [&daemon] {
      return (daemon.last_submission().flags & simm::ipc::kFlagTraced) != 0;
    };
    REQUIRE(client.put("k", simm::View(region, 0, 8)).ok());
    CHECK_FALSE(is_traced());
    REQUIRE(set_trace_parent(kGood) == Status::ok);
    CHECK(client.exists("k").ok());
    CHECK(is_traced() == takes_traces);
    simm::CallOptions exact;
    exact.exact_size = true;
    CHECK(client.get("k", simm::View(region, 0, 8), exact).ok());
    CHECK(daemon.last_submission().flags ==
          (simm::ipc::kFlagExactSize | (takes_traces ? simm::ipc::kFlagTraced : 0)));
    CHECK(client.remove("k") == Status::ok);
    CHECK(is_traced() == takes_traces);
    // Another thread has none.
    std::thread([&client] { CHECK_FALSE(client.exists("k").ok()); }).join();
    CHECK_FALSE(is_traced());
    REQUIRE(set_trace_parent("") == Status::ok);
    CHECK_FALSE(client.exists("k").ok());
    CHECK_FALSE(is_traced());
  }
}

TEST_CASE("what is no traceparent is refused in words") {
  for (const std::string& bad : std::vector<std::string>{
           std::string("00"), kGood + "0", kGood + "-more", "ff" + kGood.substr(2),
           "0x" + kGood.substr(2), "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "01" + kGood.substr(2) + "x",
           std::string(100'000, '0'), std::string(55, '\n'), std::string(55, '\0')}) {
    CHECK(set_trace_parent(bad) == Status::invalid_argument);
    const std::string said = simm::last_error();
    CHECK(said.find("trace_parent = '") == 0);
    CHECK(said.find("hexadecimal in lower case") != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
    CHECK(simm_set_trace_parent("nonsense") == SIMM_INVALID_ARGUMENT);
  }
}

}  // namespace trace_parent_test
