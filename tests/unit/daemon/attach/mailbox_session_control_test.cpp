#include "daemon/attach/mailbox_session_control.h"

#include <doctest/doctest.h>

#include "daemon/attach/tenant_account.h"
#include "daemon/base/config.h"
#include "tests/unit/daemon/session/session_rig.h"

namespace mailbox_session_control_test {

using namespace simm;

// What the data agent is told of a session under this configuration.
session::SessionConfig opened_with(const std::string& json) {
  auto config = base::parse_config(json, "simm.json");
  REQUIRE(config.has_value());
  const control::TenantRules tenants(*config, base::KeyHasher(5));
  session::SessionCommands commands(16);
  session::SessionEvents events(16);
  session_rig::FakeWaiter waiter;
  control::MailboxSessionControl plane(*config, tenants, {{&commands, &events, &waiter}});

  auto memory = control::SessionMemory::create(7, 1, ipc::kLayoutVersion);
  REQUIRE(memory.has_value());
  control::TenantAccounts accounts(tenants, *config);
  const control::Tenant& tenant = tenants.resolve("", 1234, 1234);
  plane.open_session({7, &*memory, &tenant, &accounts.of(tenant)});
  session::SessionCommand command;
  REQUIRE(commands.try_pop(command));
  REQUIRE(command.kind == session::SessionCommand::Kind::attach);
  CHECK(command.session->config().traffic != nullptr);
  return command.session->config();
}

TEST_CASE("the longest deadline of a session is the configured one, ten minutes by default") {
  CHECK(opened_with("{}").limits.timeout_max_ns == 600 * base::kNsPerSecond);
  CHECK(opened_with(R"({"session": {"timeout_max_ms": 5000}})").limits.timeout_max_ns ==
        5 * base::kNsPerSecond);
}

TEST_CASE("a tenant without a section has the bytes under way that a section has by default") {
  constexpr std::uint64_t kDefault = std::uint64_t{4} << 30;
  CHECK(opened_with("{}").tenant_bytes_max == kDefault);
  CHECK(opened_with(R"({"tenants": [{"name": "default"}]})").tenant_bytes_max == kDefault);
  CHECK(opened_with(R"({"tenants": [{"name": "default", "in_flight_bytes_max": "1GiB"}]})")
            .tenant_bytes_max == std::uint64_t{1} << 30);
  auto config = base::parse_config(R"({"sockets": [{"path": "/a", "tenant": "blue"}]})", "a");
  REQUIRE(config.has_value());
  const control::TenantRules tenants(*config, base::KeyHasher(5));
  CHECK(tenants.resolve("blue", 0, 0).in_flight_bytes_max == kDefault);
}

TEST_CASE("sessions of a tenant have its bandwidth, and none where no limit is configured") {
  CHECK(opened_with("{}").bandwidth == nullptr);
  CHECK(opened_with(R"({"tenants": [{"name": "default", "bandwidth_max": "1MiB"}]})").bandwidth !=
        nullptr);
}

}  // namespace mailbox_session_control_test
