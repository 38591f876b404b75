// A client that lies about memory of a GPU: each lie is refused with the reason, and costs neither
// the session nor the helper that works for others.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

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

TEST_CASE("gpu: a client whose gets have no time does not cost others their helper") {
  using namespace gpu_attack_test;
  const GpuWorld world;
  simm::Client victim = world.connect();
  const GpuBuffer buffer(kBytes);
  const auto region = victim.register_region(buffer.pointer(), kBytes);
  REQUIRE(region.has_value());
  for (std::uint64_t i = 0; i < kBytes; ++i) buffer.seen()[i] = pattern(3, i);
  REQUIRE(victim.put("page", simm::View(*region, 0, kBytes)).status == Status::ok);
  const pid_t helper = world.helper();
  // So many pieces that the last one waits for longer than a piece may take that hangs.
  constexpr std::uint64_t kPieces = 120;
  constexpr std::uint64_t kPieceBytes = kBytes / 128;
  simm::Client attacker = world.connect();
  const GpuBuffer much(kBytes);
  const auto theirs = attacker.register_region(much.pointer(), kBytes);
  REQUIRE(theirs.has_value());
  const std::vector<simm::Item> items = pieces_of_page(*theirs, kPieces, kPieceBytes);
  world.break_driver("slow=10000");
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> given_up{0};
  std::thread flood([&] {
    std::vector<std::array<simm::PageResult, 1>> results(kPieces);
    simm::CallOptions hurried;
    hurried.timeout_ms = 50;
    hurried.ranged = true;
    while (!stop) {
      for (std::uint64_t piece = 0; piece < kPieces; ++piece) {
        (void)attacker.get_async(std::span(items).subspan(piece, 1), results[piece], hurried);
      }
      while (attacker.pending() > 0) {
        std::array<simm::Completed, kPieces> completed;
        attacker.wait_at_least(kPieces, 1000);
        (void)attacker.drain(completed);
      }
      for (const auto& result : results) given_up += result[0].ok() ? 0 : 1;
    }
  });
  simm::CallOptions patient;
  patient.timeout_ms = 60'000;
  std::uint64_t failed = 0;
  std::uint64_t wrong = 0;
  for (int round = 0; round < 10 || given_up < 5 * kPieces; ++round) {
    buffer.fill(std::byte{0xcd});
    failed += victim.get("page", simm::View(*region, 0, kBytes), patient).status != Status::ok;
    for (std::uint64_t i = 0; i < kBytes; ++i) wrong += buffer.seen()[i] != pattern(3, i);
  }
  stop = true;
  flood.join();
  CHECK(failed == 0);
  CHECK(wrong == 0);
  CHECK(world.daemon.report("gpus").at(0).at("last_error") == "");
  CHECK(world.helper() == helper);
  CHECK(world.daemon.report("gpus").at(0).at("restarts") == 0);
}
