// GpuDevices with a keeper of its own, and maintain() called by the test alone.
#include "daemon/memory/gpu/gpu_devices.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "simm/expected.h"
#include "tests/gpu/gpu_world.h"

namespace gpu_devices_test {

using namespace simm::memory;

struct Rig {
  const simm::test_support::TemporaryDirectory directory{"/tmp"};
  pid_t keeper_pid = -1;
  std::optional<GpuDevices> gpus;
  std::string why;  // the last open() failed

  Rig() {
    break_driver("");
    ::setenv("SIMM_TEST_GPU_FAULTS", (directory / "faults").c_str(), 1);
    auto started = start_gpu_keeper([] { return simm::Outcome(simm::Done{}); });
    REQUIRE(started);
    keeper_pid = started->pid;
    gpus.emplace(std::move(started->socket), simm::memory::ForeignArena{}, false);
  }
  ~Rig() {
    gpus.reset();
    ::waitpid(keeper_pid, nullptr, 0);  // it ends because its socket was closed
    ::unsetenv("SIMM_TEST_GPU_FAULTS");
  }
  // Of every process that asks the driver from now on.
  void break_driver(const std::string& line) const {
    std::ofstream(directory / "new") << line << "\n";
    std::filesystem::rename(directory / "new", directory / "faults");
  }
  simm::Status open(std::uint8_t last, std::uint64_t tenant) {
    GpuUuid uuid;
    uuid.fill(0xa0);
    uuid[15] = last;  // the tests' driver has one GPU: 0
    const auto opened = gpus->open(uuid, tenant);
    why = opened ? "" : opened.error().context;
    return opened.status();
  }
};

}  // namespace gpu_devices_test

TEST_CASE("gpu devices: a tenant that names GPUs which are not there starts few helpers") {
  using namespace gpu_devices_test;
  using simm::Status;
  Rig rig;
  for (std::uint32_t n = 1; n <= GpuDevices::kFailedOpensMax; ++n) {
    INFO(rig.why);
    CHECK(rig.open(static_cast<std::uint8_t>(n), 1) == Status::unsupported);
  }
  CHECK(rig.open(1, 1) == Status::out_of_memory);
  CHECK(rig.open(0, 1) == Status::out_of_memory);
  // Others do not notice, and what they have opened is there for all.
  CHECK(rig.open(1, 2) == Status::unsupported);
  CHECK(rig.open(0, 2) == Status::ok);
  CHECK(rig.open(0, 1) == Status::ok);
  for (std::uint32_t look = 0; look < GpuDevices::kForgiveLooks; ++look) rig.gpus->maintain();
  CHECK(rig.open(1, 1) == Status::unsupported);
  CHECK(rig.open(1, 1) == Status::out_of_memory);
}

TEST_CASE("gpu devices: a keeper that does not answer in time has not gone") {
  using namespace gpu_devices_test;
  Rig rig;
  gpu_tests::stop_process(rig.keeper_pid);
  CHECK(rig.open(0, 1) == simm::Status::unreachable);
  CHECK(rig.why.find("did not answer for 5 seconds") != std::string::npos);
  gpu_tests::send_signal(rig.keeper_pid, SIGCONT);
  // What it answers to the first request is nobody's any more.
  CHECK(rig.open(0, 1) == simm::Status::ok);
  REQUIRE(rig.gpus->views().size() == 1);
  CHECK(rig.gpus->views()[0].state == GpuState::running);
  gpu_tests::send_signal(rig.keeper_pid, SIGKILL);
  CHECK(rig.open(1, 1) == simm::Status::unreachable);
  CHECK(rig.why == "the keeper of GPU helpers has gone: restart simmd");
}

TEST_CASE("gpu devices: an order for all tiers holds for a GPU that is being opened meanwhile") {
  using namespace gpu_devices_test;
  Rig rig;
  rig.break_driver("init=wait");
  std::thread opener([&] { CHECK(rig.open(0, 1) == simm::Status::ok); });
  // The device has its tier's size by now, and is in no list before its helper has the GPU.
  const bool is_starting =
      gpu_tests::eventually([&] { return gpu_tests::child_of(rig.keeper_pid, "simmd-gpu") != -1; });
  rig.gpus->resize_tiers(128 << 20);
  rig.break_driver("");
  opener.join();
  CHECK(is_starting);
  REQUIRE(rig.gpus->views().size() == 1);
  CHECK(rig.gpus->views()[0].tier_bytes_max == 128 << 20);
}
