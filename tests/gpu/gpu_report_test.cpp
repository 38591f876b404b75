// What simmctl shows of GPUs, and of regions on them.
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/gpu/gpu_world.h"

namespace gpu_report_test {

using namespace gpu_tests;
using nlohmann::json;
using simm::View;

constexpr std::uint64_t kBytes = 4 << 20;
constexpr const char* kName = "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000";

}  // namespace gpu_report_test

TEST_CASE("gpu: simmctl shows the GPUs, and on which one a region lies") {
  using namespace gpu_report_test;
  const GpuWorld world;
  CHECK(world.daemon.report("gpus").empty());
  simm::Client client = world.connect();
  const GpuBuffer buffer(kBytes);
  auto region = client.register_region(buffer.pointer(), kBytes);
  REQUIRE(region.has_value());
  auto host = client.allocate_region(4096);
  REQUIRE(host.has_value());
  int on_gpu = 0;
  const json regions = world.daemon.report("regions");
  for (const json& row : regions) {
    CHECK(row.at("gpu") == (row.at("kind") == "gpu" ? kName : ""));
    on_gpu += row.at("kind") == "gpu" ? 1 : 0;
  }
  CHECK(regions.size() == 2);
  CHECK(on_gpu == 1);
  REQUIRE(client.put("page", View(*region, 0, 3 << 20)).status == Status::ok);
  REQUIRE(client.get("page", View(*region, 0, 3 << 20)).status == Status::ok);
  json gpus = world.daemon.report("gpus");
  REQUIRE(gpus.size() == 1);
  CHECK(gpus[0].at("gpu") == 0);
  CHECK(gpus[0].at("uuid") == kName);
  CHECK(gpus[0].at("model") == "GPU 0 of the tests");
  CHECK(gpus[0].at("helper") == world.helper());
  CHECK(gpus[0].at("state") == "running");
  CHECK(gpus[0].at("regions") == 1);
  CHECK(gpus[0].at("mapped_bytes") == kBytes);
  CHECK(gpus[0].at("copies_out") == 3);
  CHECK(gpus[0].at("bytes_out") == 3 << 20);
  CHECK(gpus[0].at("copies_in") == 1);
  CHECK(gpus[0].at("bytes_in") == 3 << 20);
  CHECK(gpus[0].at("restarts") == 0);
  CHECK(gpus[0].at("last_error") == "");
  // A driver that fails says how.
  world.break_driver("copy=700");
  CHECK(client.put("other", View(*region, 0, 4096)).status != Status::ok);
  world.heal();
  CHECK(eventually([&] {
    gpus = world.daemon.report("gpus");
    return gpus[0].at("state") == "running" && gpus[0].at("restarts") == 1;
  }));
  CHECK(gpus[0].at("last_error") == "the driver failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  CHECK(gpus[0].at("lost") == 1);
}

TEST_CASE("gpu: metrics of a GPU say what simmctl shows, and why memory was refused") {
  using namespace gpu_report_test;
  const GpuWorld world;
  simm::Client client = world.connect();
  const GpuBuffer buffer(kBytes);
  CHECK(world.daemon.counter("gpu.0.regions") == 0);
  auto region = client.register_region(buffer.pointer(), kBytes);
  REQUIRE(region.has_value());
  REQUIRE(client.put("page", View(*region, 0, 5000)).status == Status::ok);
  REQUIRE(client.get("page", View(*region, 0, 5000)).status == Status::ok);
  const auto counts = [&](const std::string& name, std::uint64_t value) {
    CAPTURE(name);
    CHECK(eventually([&] { return world.daemon.counter("gpu.0." + name) == value; }));
  };
  counts("bytes_in", 5000);
  counts("bytes_out", 5000);
  counts("copies_in", 1);
  counts("copies_out", 1);
  counts("regions", 1);
  counts("mapped_bytes", kBytes);
  counts("is_running", 1);
  send_signal(world.helper(), SIGKILL);
  counts("restarts", 1);
  world.break_driver("import=2");
  const GpuBuffer other(kBytes);
  CHECK(client.register_region(other.pointer(), kBytes).status() == Status::out_of_memory);
  CHECK(world.daemon.counter("gpu.refused.room") == 1);
  world.break_driver("import=1");
  CHECK(client.register_region(other.pointer(), kBytes).status() == Status::invalid_argument);
  CHECK(world.daemon.counter("gpu.refused.memory") == 1);
  CHECK(world.daemon.counter("gpu.refused.off") == 0);
  const GpuWorld off(false);
  simm::Client stranger = off.connect();
  CHECK(stranger.register_region(buffer.pointer(), kBytes).status() == Status::unsupported);
  CHECK(off.daemon.counter("gpu.refused.off") == 1);
}
