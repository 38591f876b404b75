// GpuDevice with a helper of its own, and maintain() called by the test alone.
#include "daemon/memory/gpu/gpu_device.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/gpu_buffer.h"
#include "tests/gpu/gpu_world.h"

namespace gpu_device_test {

using namespace simm::memory;
using gpu_tests::child_of;
using gpu_tests::GpuBuffer;

constexpr std::uint64_t kBytes = 2 << 20;

// The keeper is forked first: afterwards the driver has threads in this process.
struct Rig {
  pid_t keeper_pid = -1;
  std::optional<GpuKeeper> keeper;
  std::shared_ptr<GpuDevice> device;

  Rig() {
    auto started = start_gpu_keeper([] { return simm::Outcome(simm::Done{}); });
    REQUIRE(started);
    keeper_pid = started->pid;
    keeper.emplace(std::move(started->socket));
    GpuUuid uuid;
    uuid.fill(0xa0);
    uuid[15] = 0;  // of the only GPU that the tests' driver has
    auto made = GpuDevice::start(*keeper, uuid, {}, false);
    INFO((made ? std::string() : made.error().context));
    REQUIRE(made);
    device = std::move(*made);
  }
  ~Rig() {
    device.reset();
    keeper.reset();
    ::waitpid(keeper_pid, nullptr, 0);  // it ends because its socket was closed
  }
  [[nodiscard]] pid_t helper() const { return child_of(keeper_pid, "simmd-gpu"); }
  std::unique_ptr<GpuImport> import(const GpuBuffer& buffer) const {
    simm::cuda::AllocationHandle handle = 0;
    REQUIRE(gpu_tests::driver().memory_retain_handle(&handle, buffer.pointer()) == 0);
    int descriptor = -1;
    REQUIRE(gpu_tests::driver().memory_export(&descriptor, handle,
                                              simm::cuda::kHandlePosixDescriptor, 0) == 0);
    REQUIRE(gpu_tests::driver().memory_release(handle) == 0);
    auto made = device->import(simm::ipc::UniqueFd(descriptor), kBytes);
    REQUIRE(made);
    return std::move(*made);
  }
};

}  // namespace gpu_device_test

TEST_CASE("gpu device: a piece that ends after its fence was asked for costs the helper nothing") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  const pid_t helper = rig.helper();
  REQUIRE(::kill(helper, SIGSTOP) == 0);
  Copier::Ticket ticket = 0;
  REQUIRE(import->post_read(0, 4096, ticket) == simm::Status::ok);
  import->fence(ticket);
  CHECK_FALSE(import->is_fenced(ticket));
  REQUIRE(::kill(helper, SIGCONT) == 0);
  // As an agent does that gave the piece up: it asks first whether the piece has ended meanwhile.
  std::vector<std::byte> own(4096);
  REQUIRE(gpu_tests::eventually(
      [&] { return import->poll(ticket, own.data(), own.size()) == PieceState::ok; }, 30'000));
  for (std::uint32_t look = 0; look < GpuDevice::kFencedLooksMax + 1; ++look)
    rig.device->maintain();
  REQUIRE(import->post_read(0, 4096, ticket) == simm::Status::ok);
  CHECK(gpu_tests::eventually(
      [&] { return import->poll(ticket, own.data(), own.size()) == PieceState::ok; }, 30'000));
  CHECK(rig.device->lives() == 1);
  CHECK(own[0] == std::byte{0xcd});
}
