// Pages in the memory of GPUs, on the driver of the tests: the same bytes as from memory of the
// host, in whatever order things go wrong.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/gpu/gpu_world.h"
#include "tests/process/cluster/cluster_processes.h"

namespace gpu_region_test {

using namespace gpu_tests;
using simm::Item;
using simm::PageResult;
using simm::Region;
using simm::RegionKind;
using simm::View;

constexpr std::uint64_t kBufferBytes = 48 << 20;
constexpr std::uint64_t kSizes[] = {1, 4096, 65'537, (1 << 20) + 3, 4'500'000, 20 << 20};

// Draws `object` there, and nothing beside it.
void draw(const GpuBuffer& buffer, std::uint64_t offset, std::uint64_t bytes,
          std::uint64_t object) {
  for (std::uint64_t i = 0; i < bytes; ++i) buffer.seen()[offset + i] = pattern(object, i);
}

// The bytes of `object` from `first` on, and not a byte of the buffer beside them.
bool shows(const GpuBuffer& buffer, std::uint64_t offset, std::uint64_t bytes, std::uint64_t object,
           std::uint64_t first = 0) {
  const std::span<const std::byte> seen = buffer.seen();
  for (std::uint64_t i = 0; i < bytes; ++i) {
    if (seen[offset + i] != pattern(object, first + i)) return false;
  }
  const auto is_canary = [](std::byte byte) { return byte == std::byte{0xcd}; };
  const auto begin = seen.begin();
  return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(offset), is_canary) &&
         std::all_of(begin + static_cast<std::ptrdiff_t>(offset + bytes), seen.end(), is_canary);
}

Region registered(simm::Client& client, const GpuBuffer& buffer) {
  auto region = client.register_region(buffer.pointer(), kBufferBytes);
  INFO((region ? std::string() : region.error().context));
  REQUIRE(region.has_value());
  CHECK(region->kind() == RegionKind::gpu);
  return std::move(*region);
}

// A client with memory on a GPU and of the host.
struct GpuClient {
  explicit GpuClient(const GpuWorld& world)
      : client(world.connect()), gpu(registered(client, buffer)), host(host_memory(client)) {}
  static Region host_memory(simm::Client& client) {
    auto made = client.allocate_region(1 << 20);
    REQUIRE(made.has_value());
    return std::move(*made);
  }
  simm::Client client;
  const GpuBuffer buffer{kBufferBytes};
  const Region gpu;
  const Region host;
};

// Two clients' worth of the same bytes, by way of a GPU and of the host.
void compare(simm::Client& client) {
  const GpuBuffer buffer(kBufferBytes);
  const Region gpu = registered(client, buffer);
  auto host = client.allocate_region(kBufferBytes);
  REQUIRE(host.has_value());
  std::uint64_t object = 1;
  for (const std::uint64_t bytes : kSizes) {
    const std::uint64_t offset = 4097 * object;
    const std::string key = "object/" + std::to_string(object);
    draw(buffer, offset, bytes, object);
    REQUIRE(client.put(key, View(gpu, offset, bytes)).status == Status::ok);
    // The host sees what the GPU had.
    std::fill_n(host->data(), bytes + 1, std::byte{0xee});
    REQUIRE(client.get(key, View(*host, 0, bytes)).status == Status::ok);
    bool same = host->data()[bytes] == std::byte{0xee};
    for (std::uint64_t i = 0; i < bytes; ++i) same &= host->data()[i] == pattern(object, i);
    CHECK(same);
    // And the GPU what the host put.
    REQUIRE(client.put(key + "/host", View(*host, 0, bytes)).status == Status::ok);
    buffer.fill(std::byte{0xcd});
    REQUIRE(client.get(key + "/host", View(gpu, 3 * offset, bytes)).status == Status::ok);
    CHECK(shows(buffer, 3 * offset, bytes, object));
    buffer.fill(std::byte{0xcd});
    ++object;
  }
}

}  // namespace gpu_region_test

TEST_CASE("gpu: pages of all sizes, the same bytes as from memory of the host") {
  using namespace gpu_region_test;
  const GpuWorld world;
  simm::Client client = world.connect();
  compare(client);
}

TEST_CASE("gpu: pages that other daemons hold, over TCP") {
  using namespace gpu_region_test;
  const simm::test_support::TemporaryDirectory none{"/tmp"};
  cluster_processes::ClusterProcesses cluster;
  REQUIRE(cluster.manager.start());
  const auto storage = cluster.storage("s");
  const auto node = cluster.node("n", "0", R"(, "gpu": {"enabled": true})");
  node->set_environment("SIMM_TEST_GPU_FAULTS", none / "no faults");
  REQUIRE(storage->start());
  REQUIRE(node->start());
  simm::Client client = patient_client(node->socket());
  // The map is everywhere a moment after all are ready.
  auto host = client.allocate_region(4096);
  REQUIRE(host.has_value());
  REQUIRE(
      eventually([&] { return client.put("first", View(*host, 0, 4096)).status == Status::ok; }));
  compare(client);
}

TEST_CASE("gpu: a batch of hits and misses, and ranges of an object") {
  using namespace gpu_region_test;
  const GpuWorld world;
  simm::Client client = world.connect();
  const GpuBuffer buffer(kBufferBytes);
  const Region gpu = registered(client, buffer);
  constexpr std::uint64_t kBytes = 70'000;
  draw(buffer, 0, kBytes, 7);
  REQUIRE(client.put("there", View(gpu, 0, kBytes)).status == Status::ok);
  buffer.fill(std::byte{0xcd});
  const std::array<Item, 3> items{Item{"away", View(gpu, 0, kBytes), 0, 0},
                                  Item{"there", View(gpu, 1'000'000, kBytes), 0, 0},
                                  Item{"away too", View(gpu, 2'000'000, kBytes), 0, 0}};
  std::array<PageResult, 3> results;
  (void)client.get(items, results, {});
  CHECK(results[0].status == Status::not_found);
  CHECK(results[1].status == Status::ok);
  CHECK(results[2].status == Status::not_found);
  CHECK(shows(buffer, 1'000'000, kBytes, 7));
  buffer.fill(std::byte{0xcd});
  const Item part{"there", View(gpu, 5'000, 1'000), 69'000 - 1, 0};
  PageResult result;
  (void)client.get({&part, 1}, {&result, 1}, {});
  CHECK(result.status == Status::ok);
  CHECK(shows(buffer, 5'000, 1'000, 7, 69'000 - 1));
}

TEST_CASE("gpu: a put waits for what the caller has queued on the GPU before") {
  using namespace gpu_region_test;
  const GpuWorld world;
  GpuClient own(world);
  simm::Client& client = own.client;
  const GpuBuffer& buffer = own.buffer;
  const Region& gpu = own.gpu;
  const Region& host = own.host;
  simm::cuda::Stream stream = nullptr;
  REQUIRE(driver().stream_create(&stream, simm::cuda::kStreamNonBlocking) == 0);
  const std::vector<std::byte> news(1 << 20, std::byte{0x77});
  int stale = 0;
  for (int i = 0; i < 50; ++i) {
    buffer.fill(std::byte{0x11});
    REQUIRE(driver().copy_to_device(buffer.address(), news.data(), news.size(), stream) == 0);
    REQUIRE(client.put("page", View(gpu, 0, news.size())).status == Status::ok);
    REQUIRE(client.get("page", View(host, 0, news.size())).status == Status::ok);
    stale += std::equal(news.begin(), news.end(), host.data()) ? 0 : 1;
  }
  CHECK(stale == 0);
}

TEST_CASE("gpu: memory that can not be shared is refused with the remedy") {
  using namespace gpu_region_test;
  const GpuWorld world;
  simm::Client client = world.connect();
  const GpuBuffer buffer(kBufferBytes, 0);
  auto refused = client.register_region(buffer.pointer(), kBufferBytes);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.status() == Status::unsupported);
  CHECK(refused.error().context.find("cuMemCreate") != std::string::npos);
  const CudaMalloc legacy(kBufferBytes);
  refused = client.register_region(legacy.pointer(), kBufferBytes);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.status() == Status::unsupported);
  CHECK(refused.error().context.find("cudaMalloc") != std::string::npos);
  const GpuBuffer small(2 << 20);
  refused = client.register_region(small.pointer(), kBufferBytes);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().context.find("register each allocation") != std::string::npos);
  std::array<std::byte, 4096> host{};
  simm::RegisterOptions options;
  options.kind = RegionKind::gpu;
  refused = client.register_region(host.data(), host.size(), options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.status() == Status::invalid_argument);
}

TEST_CASE("gpu: a daemon without GPU memory says which key switches it on") {
  using namespace gpu_region_test;
  const GpuWorld world(false);
  simm::Client client = world.connect();
  const GpuBuffer buffer(kBufferBytes);
  const auto refused = client.register_region(buffer.pointer(), kBufferBytes);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.status() == Status::unsupported);
  CHECK(refused.error().context.find("gpu.enabled") != std::string::npos);
  CHECK(world.helper() == -1);
}

TEST_CASE("gpu: memory is given back by deregistering, and by the death of the client") {
  using namespace gpu_region_test;
  const GpuWorld world;
  {
    simm::Client client = world.connect();
    const GpuBuffer buffer(kBufferBytes);
    Region gpu = registered(client, buffer);
    CHECK(world.mappings() == 1);
    REQUIRE(gpu.deregister());  // nothing is copied any more; a thread lets go of the memory
    CHECK(eventually([&] { return world.mappings() == 0; }));
  }
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    simm::Client client = world.connect();
    const GpuBuffer buffer(kBufferBytes);
    const Region gpu = registered(client, buffer);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) (void)client.put("page", View(gpu, 0, 4 << 20));
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(world.mappings() == 1);
  send_signal(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(eventually([&] { return world.mappings() == 0; }));
}

TEST_CASE("gpu: a helper that dies, hangs or fails costs what is under way, and comes back") {
  using namespace gpu_region_test;
  const GpuWorld world;
  GpuClient own(world);
  simm::Client& client = own.client;
  const GpuBuffer& buffer = own.buffer;
  const Region& gpu = own.gpu;
  const Region& host = own.host;
  constexpr std::uint64_t kBytes = 3 << 20;
  draw(buffer, 0, kBytes, 5);
  REQUIRE(client.put("page", View(gpu, 0, kBytes)).status == Status::ok);
  REQUIRE(client.put("host", View(host, 0, 4096)).status == Status::ok);
  for (const std::string fault : {"kill", "copy=700", "copy=hang", "query=hang"}) {
    CAPTURE(fault);
    const pid_t before = world.helper();
    REQUIRE(before > 0);
    if (fault == "kill") {
      send_signal(before, SIGKILL);
    } else {
      world.break_driver(fault);
      simm::CallOptions options;
      options.timeout_ms = 300;
      const Status status = client.get("page", View(gpu, 0, kBytes), options).status;
      CAPTURE(simm::status_name(status));
      CHECK(status != Status::ok);
      world.heal();
    }
    // Memory of the host goes on. A session that had to wait too long is begun anew first.
    CHECK(eventually([&] { return client.get("host", View(host, 0, 4096)).status == Status::ok; }));
    CHECK(eventually([&] { return world.helper() > 0 && world.helper() != before; }));
    buffer.fill(std::byte{0xcd});
    Status last = Status::ok;
    const auto gets = [&] {
      last = client.get("page", View(gpu, 8192, kBytes)).status;
      return last == Status::ok;
    };
    const bool comes_back = eventually(gets);
    CAPTURE(simm::status_name(last));
    INFO(gpu.kind_reason());
    CHECK(comes_back);
    CHECK(shows(buffer, 8192, kBytes, 5));
  }
}
