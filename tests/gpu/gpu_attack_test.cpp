// A client that lies about memory of a GPU: each lie is refused with the reason, and costs neither
// the session nor the helper that works for others.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <span>
#include <string>
#include <variant>

#include "ipc/control_message.h"
#include "tests/gpu/gpu_world.h"
#include "tests/support/raw_client.h"

namespace gpu_attack_test {

using namespace gpu_tests;
namespace ipc = simm::ipc;

constexpr std::uint64_t kBytes = 4 << 20;

// The tests' driver names its only GPU so.
constexpr std::array<std::uint8_t, 16> kUuid = [] {
  std::array<std::uint8_t, 16> uuid{};
  uuid.fill(0xa0);
  uuid[15] = 0;
  return uuid;
}();

ipc::RegisterRegion honest() {
  ipc::RegisterRegion wanted;
  wanted.request_id = 1;
  wanted.kind = ipc::RegionRequestKind::gpu;
  wanted.address = 1 << 30;
  wanted.length = kBytes;
  wanted.has_fd = true;
  wanted.name = "attack";
  wanted.gpu_uuid = kUuid;
  wanted.gpu_allocation_bytes = kBytes;
  return wanted;
}

ipc::RegionReply ask(simm::test_support::RawClient& client, const ipc::RegisterRegion& wanted,
                     int file) {
  const std::array<int, 1> fds{file};
  const auto answer = client.ask(wanted, std::span(fds).first(file < 0 ? 0 : 1));
  REQUIRE(answer.has_value());
  REQUIRE(std::holds_alternative<ipc::RegionReply>(*answer));
  return std::get<ipc::RegionReply>(*answer);
}

}  // namespace gpu_attack_test

TEST_CASE("gpu: forged registrations are refused, and harm nobody") {
  using namespace gpu_attack_test;
  const GpuWorld world;
  simm::Client victim = world.connect();
  const GpuBuffer buffer(kBytes);
  auto region = victim.register_region(buffer.pointer(), kBytes);
  REQUIRE(region.has_value());
  const pid_t helper = world.helper();
  auto attacker = simm::test_support::RawClient::attached(world.daemon.socket());
  const ipc::UniqueFd file(::memfd_create("not of a gpu", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(kBytes)) == 0);

  // A memory file that is no allocation.
  CHECK(ask(attacker, honest(), file.get()).status == Status::invalid_argument);
  // No descriptor at all.
  ipc::RegisterRegion lie = honest();
  lie.has_fd = false;
  CHECK(ask(attacker, lie, -1).status == Status::invalid_argument);
  // Beyond its end.
  lie = honest();
  lie.fd_offset = 1;
  CHECK(ask(attacker, lie, file.get()).status == Status::invalid_argument);
  // A GPU that is not there.
  lie = honest();
  lie.gpu_uuid[0] = 1;
  CHECK(ask(attacker, lie, file.get()).status == Status::unsupported);

  // An allocation that is larger than it really is, and one that is no whole number of granules.
  simm::cuda::AllocationHandle handle = 0;
  REQUIRE(driver().memory_retain_handle(&handle, buffer.pointer()) == 0);
  int descriptor = -1;
  REQUIRE(driver().memory_export(&descriptor, handle, simm::cuda::kHandlePosixDescriptor, 0) == 0);
  const ipc::UniqueFd allocation(descriptor);
  REQUIRE(driver().memory_release(handle) == 0);
  for (const std::uint64_t bytes : {2 * kBytes, kBytes + 1}) {
    lie = honest();
    lie.gpu_allocation_bytes = bytes;
    CHECK(ask(attacker, lie, allocation.get()).status == Status::invalid_argument);
  }
  lie = honest();
  lie.gpu_allocation_bytes = std::uint64_t{1} << 62;
  CHECK(ask(attacker, lie, allocation.get()).status == Status::out_of_memory);
  // The truth is taken: the attacker's session has outlived the lies.
  CHECK(ask(attacker, honest(), allocation.get()).status == Status::ok);

  // The one that found no GPU has ended.
  CHECK(eventually([&] { return world.helper() == helper; }));
  CHECK(victim.put("page", simm::View(*region, 0, kBytes)).status == Status::ok);
  CHECK(victim.get("page", simm::View(*region, 0, kBytes)).status == Status::ok);
}
