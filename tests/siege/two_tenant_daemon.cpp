#include "tests/siege/two_tenant_daemon.h"

#include <doctest/doctest.h>

#include "ipc/memory_file.h"
#include "tests/support/raw_client.h"

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

bool lets_in(const std::string& socket) {
  test_support::RawClient client(socket);
  if (!client.attach()) return false;
  const auto file = ipc::MemoryFile::create({"siege", 4096, false, false});
  REQUIRE(file.has_value());
  return client.register_region(file->fd(), nullptr, 4096, ipc::RegionRequestKind::shared).status ==
         Status::ok;
}

}  // namespace simm::siege
