// Rig: a GpuDevice with a helper of its own, on the driver of the tests, without a daemon.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/memory/gpu/gpu_device.h"
#include "tests/gpu/gpu_buffer.h"
#include "tests/gpu/gpu_world.h"

namespace gpu_device_test {

using namespace simm::memory;
using gpu_tests::child_of;
using gpu_tests::GpuBuffer;

constexpr std::uint64_t kBytes = 2 << 20;

// The keeper is forked first: afterwards the driver has threads in this process.
struct Rig {
  const simm::test_support::TemporaryDirectory directory{"/tmp"};
  pid_t keeper_pid = -1;
  std::optional<GpuKeeper> keeper;
  std::shared_ptr<GpuDevice> device;

  explicit Rig(const GpuTierSize& tier = {}) {
    break_driver("");
    ::setenv("SIMM_TEST_GPU_FAULTS", (directory / "faults").c_str(), 1);
    auto started = start_gpu_keeper([] { return simm::Outcome(simm::Done{}); });
    REQUIRE(started);
    keeper_pid = started->pid;
    keeper.emplace(std::move(started->socket));
    GpuUuid uuid;
    uuid.fill(0xa0);
    uuid[15] = 0;  // of the only GPU that the tests' driver has
    auto made = GpuDevice::start(*keeper, uuid, {}, false, tier);
    INFO((made ? std::string() : made.error().context));
    REQUIRE(made);
    device = std::move(*made);
  }
  ~Rig() {
    device.reset();
    keeper.reset();
    ::waitpid(keeper_pid, nullptr, 0);  // it ends because its socket was closed
    ::unsetenv("SIMM_TEST_GPU_FAULTS");
  }
  [[nodiscard]] pid_t helper() const { return child_of(keeper_pid, "simmd-gpu"); }
  // Of every process that asks the driver from now on.
  void break_driver(const std::string& line) const {
    std::ofstream(directory / "new") << line << "\n";
    std::filesystem::rename(directory / "new", directory / "faults");
  }
  // Until the helper has died.
  void await_death() const {
    REQUIRE(gpu_tests::eventually([&] { return device->view().helper == -1; }));
  }
  void look(std::uint32_t times) const {
    for (std::uint32_t i = 0; i < times; ++i) device->maintain();
  }
  simm::Expected<std::unique_ptr<GpuImport>> try_import(const GpuBuffer& buffer,
                                                        std::uint64_t tenant = 1) const {
    simm::cuda::AllocationHandle handle = 0;
    REQUIRE(gpu_tests::driver().memory_retain_handle(&handle, buffer.pointer()) == 0);
    int descriptor = -1;
    REQUIRE(gpu_tests::driver().memory_export(&descriptor, handle,
                                              simm::cuda::kHandlePosixDescriptor, 0) == 0);
    REQUIRE(gpu_tests::driver().memory_release(handle) == 0);
    return device->import(simm::ipc::UniqueFd(descriptor), kBytes, tenant);
  }
  std::unique_ptr<GpuImport> import(const GpuBuffer& buffer, std::uint64_t tenant = 1) const {
    auto made = try_import(buffer, tenant);
    REQUIRE(made);
    return std::move(*made);
  }
};

}  // namespace gpu_device_test
