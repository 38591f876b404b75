#include "tests/siege/two_tenant_daemon.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/memory_file.h"
#include "tests/support/raw_client.h"

namespace simm::siege {

namespace {

constexpr const char* kTwoTenants = R"(
  "sockets": [{"path": "$DIR/red.sock", "tenant": "red", "mode": "0666"},
              {"path": "$DIR/blue.sock", "tenant": "blue", "mode": "0666"}],
  "tenants": [{"name": "red", "gpu_lend": "all"}, {"name": "blue"}])";

}  // namespace

TwoTenantDaemon::TwoTenantDaemon(const std::string& keys)
    : DaemonProcess(kTwoTenants + (keys.empty() ? "" : ", " + keys)) {
  if (!start()) FAIL(log());
}

OneTenantDaemon::OneTenantDaemon() : DaemonProcess() {
  if (!start()) FAIL(log());
}

ipc::UniqueFd sealable_file(std::uint64_t bytes) {
  ipc::UniqueFd file(::memfd_create("siege", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  return file;
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
