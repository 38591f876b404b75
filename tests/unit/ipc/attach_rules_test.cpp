#include "ipc/attach_rules.h"

#include <doctest/doctest.h>

#include <string>

namespace attach_rules_test {

using namespace simm::ipc;
using simm::Outcome;
using simm::Status;

bool mentions(const Outcome& outcome, const std::string& text) {
  return outcome.error().context.find(text) != std::string::npos;
}

}  // namespace attach_rules_test

TEST_CASE("an older client meets a newer daemon with a refusal that names both and the remedy") {
  using namespace attach_rules_test;
  const DaemonFacts newer{kLayoutVersion + 1, 0, "9.9.9", "", kLayoutVersion + 1};
  Hello hello;
  hello.library_version = "0.1.0";
  const Outcome refused = check_hello(hello, newer);
  REQUIRE_FALSE(refused);
  CHECK(refused.status() == Status::incompatible);
  CHECK(mentions(refused, "0.1.0"));
  CHECK(mentions(refused, "9.9.9"));
  CHECK(mentions(refused, "upgrade the client"));

  Hello ahead;
  ahead.layout_version = ahead.layout_version_max = kLayoutVersion + 1;
  CHECK(mentions(check_hello(ahead, DaemonFacts{}), "upgrade the daemon"));
  CHECK(check_hello(Hello{}, DaemonFacts{}));
}

TEST_CASE("client and daemon take the newest layout that both speak") {
  using namespace attach_rules_test;
  struct Row {
    std::uint32_t client_min, client_max, daemon_min, daemon_max, common;
  };
  for (const Row& row : {Row{1, 3, 2, 5, 3}, Row{2, 5, 1, 3, 3}, Row{1, 5, 2, 3, 3},
                         Row{2, 2, 1, 3, 2}, Row{1, 1, 2, 3, 0}, Row{4, 5, 1, 3, 0},
                         // A library that says no range, and one that says nonsense.
                         Row{2, 0, 1, 3, 2}, Row{4, 0, 1, 3, 0}, Row{3, 1, 1, 3, 3}}) {
    Hello hello;
    hello.layout_version = row.client_min;
    hello.layout_version_max = row.client_max;
    DaemonFacts daemon;
    daemon.layout_version = row.daemon_max;
    daemon.layout_version_min = row.daemon_min;
    CAPTURE(row.client_min);
    CAPTURE(row.client_max);
    CHECK(common_layout(hello, daemon) == row.common);
    CHECK(check_hello(hello, daemon).has_value() == (row.common != 0));
  }
  // The previous release looks at the first field only, for its one layout.
  CHECK(Hello{}.layout_version == 1);

  Hello range;
  range.layout_version_max = 3;
  const DaemonFacts far_ahead{7, 0, "9.9.9", "", 5};
  CHECK(mentions(check_hello(range, far_ahead), "speaks session layout 1 to 3"));
  CHECK(mentions(check_hello(range, far_ahead), "speaks layout 5 to 7: upgrade the client"));
}

TEST_CASE("a client may not need a feature that the daemon lacks") {
  using namespace attach_rules_test;
  DaemonFacts daemon;
  daemon.feature_bits = 0b0101;
  Hello hello;
  hello.feature_bits = 0b0001;
  CHECK(check_hello(hello, daemon));
  hello.feature_bits = 0b0010;
  CHECK(check_hello(hello, daemon).status() == Status::incompatible);
}

TEST_CASE("a manager address of another cluster is refused with both addresses named") {
  using namespace attach_rules_test;
  const DaemonFacts daemon{kLayoutVersion, 0, "0.1.0", "10.0.0.1:30001"};
  Hello hello;
  CHECK(check_hello(hello, daemon));
  hello.manager_address = "10.0.0.1:30001";
  CHECK(check_hello(hello, daemon));
  hello.manager_address = "10.0.0.2:30001";
  const Outcome refused = check_hello(hello, daemon);
  REQUIRE_FALSE(refused);
  CHECK(mentions(refused, "10.0.0.1:30001"));
  CHECK(mentions(refused, "10.0.0.2:30001"));
  CHECK(mentions(check_hello(hello, DaemonFacts{}), "none"));
}

TEST_CASE("of several managers one that both sides name is enough") {
  using namespace attach_rules_test;
  const DaemonFacts daemon{kLayoutVersion, 0, "0.1.0", "10.0.0.1:30001, 10.0.0.2:30001"};
  Hello hello;
  for (const char* wanted : {"10.0.0.1:30001", "10.0.0.2:30001", "10.0.0.9:1,10.0.0.2:30001",
                             "10.0.0.1:30001, 10.0.0.2:30001"}) {
    hello.manager_address = wanted;
    CHECK(check_hello(hello, daemon));
  }
  for (const char* wanted : {"10.0.0.3:30001", "10.0.0.1:3000", "10.0.0.1:30001 10.0.0.2:30001",
                             "0.0.0.1:30001", ",", "10.0.0.3:1,10.0.0.4:1"}) {
    hello.manager_address = wanted;
    CHECK_FALSE(check_hello(hello, daemon));
  }
}

TEST_CASE("a daemon without a manager serves who looks for the manager on this machine") {
  using namespace attach_rules_test;
  Hello hello;
  for (const char* own :
       {"127.0.0.1:30001", "127.8.0.1:9", "localhost:30001", "[::1]:30001", "0.0.0.0:30001"}) {
    hello.manager_address = own;
    CHECK(check_hello(hello, DaemonFacts{}));
    CHECK_FALSE(check_hello(hello, DaemonFacts{kLayoutVersion, 0, "0.1.0", "10.0.0.1:30001"}));
  }
  for (const char* other : {"10.0.0.1:30001", "localhost.example.org:30001", ":30001"}) {
    hello.manager_address = other;
    CHECK_FALSE(check_hello(hello, DaemonFacts{}));
  }
}

TEST_CASE("a client takes only a session whose size belongs to its lanes") {
  using namespace attach_rules_test;
  Welcome welcome;
  welcome.lane_count = 8;
  welcome.session_bytes = session_bytes(8);
  CHECK(check_welcome(welcome));
  welcome.session_bytes += 4096;
  CHECK(check_welcome(welcome).status() == Status::incompatible);
  welcome.lane_count = 0;
  welcome.session_bytes = session_bytes(0);
  CHECK_FALSE(check_welcome(welcome));
  welcome.lane_count = kLanesMax + 1;
  welcome.session_bytes = session_bytes(kLanesMax + 1);
  CHECK_FALSE(check_welcome(welcome));

  welcome.lane_count = 8;
  welcome.session_bytes = session_bytes(8);
  welcome.layout_version = kLayoutVersion + 1;
  CHECK_FALSE(check_welcome(welcome));
  welcome.layout_version = kLayoutVersion;
  welcome.feature_bits = 1u << 31;
  CHECK_FALSE(check_welcome(welcome));
}

TEST_CASE("lanes are granted as wanted within the limits") {
  using namespace attach_rules_test;
  CHECK(granted_lanes(0, 8, 64) == 8);
  CHECK(granted_lanes(3, 8, 64) == 3);
  CHECK(granted_lanes(1000, 8, 64) == 64);
  CHECK(granted_lanes(1000, 8, 16) == 16);
  CHECK(granted_lanes(0, 8, 4) == 4);
  CHECK(granted_lanes(5, 8, 0) == 1);
  CHECK(granted_lanes(UINT32_MAX, 8, UINT32_MAX) == kLanesMax);
}
