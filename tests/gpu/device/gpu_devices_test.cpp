// GpuDevices with a keeper of its own, and maintain() called by the test alone.
#include "daemon/memory/gpu/gpu_devices.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdint>
#include <optional>
#include <string>

#include "simm/expected.h"

namespace gpu_devices_test {

using namespace simm::memory;

struct Rig {
  pid_t keeper_pid = -1;
  std::optional<GpuDevices> gpus;

  Rig() {
    auto started = start_gpu_keeper([] { return simm::Outcome(simm::Done{}); });
    REQUIRE(started);
    keeper_pid = started->pid;
    gpus.emplace(std::move(started->socket), simm::memory::ForeignArena{}, false);
  }
  ~Rig() {
    gpus.reset();
    ::waitpid(keeper_pid, nullptr, 0);  // it ends because its socket was closed
  }
  simm::Status open(std::uint8_t last, std::uint64_t tenant) {
    GpuUuid uuid;
    uuid.fill(0xa0);
    uuid[15] = last;  // the tests' driver has one GPU: 0
    return gpus->open(uuid, tenant).status();
  }
};

}  // namespace gpu_devices_test

TEST_CASE("gpu devices: a tenant that names GPUs which are not there starts few helpers") {
  using namespace gpu_devices_test;
  using simm::Status;
  Rig rig;
  for (std::uint32_t n = 1; n <= GpuDevices::kFailedOpensMax; ++n) {
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
