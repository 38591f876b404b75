#include "tests/siege/two_tenant_daemon.h"

#include <doctest/doctest.h>

namespace simm::siege {

namespace {

constexpr const char* kTwoTenants = R"(
  "sockets": [{"path": "$DIR/red.sock", "tenant": "red", "mode": "0666"},
              {"path": "$DIR/blue.sock", "tenant": "blue", "mode": "0666"}],
  "tenants": [{"name": "red"}, {"name": "blue"}])";

}  // namespace

TwoTenantDaemon::TwoTenantDaemon(const std::string& keys)
    : DaemonProcess(kTwoTenants + (keys.empty() ? "" : ", " + keys)) {
  if (!start()) FAIL(log());
}

}  // namespace simm::siege
