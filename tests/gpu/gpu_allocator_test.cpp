// simm_gpu_malloc() and simm_gpu_free(): what they make is taken by a daemon like memory of an
// engine's own, and nothing of it is left behind.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "simm/simm.h"
#include "tests/gpu/gpu_world.h"

namespace gpu_allocator_test {

using namespace gpu_tests;
using simm::View;

constexpr std::uint64_t kGranule = 2 << 20;

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}
// The bytes of the driver's mapping that begins there; 0: nothing is mapped.
std::size_t mapped_bytes(void* address) {
  simm::cuda::DevicePointer base = 0;
  std::size_t bytes = 0;
  const auto pointer = reinterpret_cast<simm::cuda::DevicePointer>(address);
  return driver().get_address_range(&base, &bytes, pointer) == simm::cuda::kSuccess ? bytes : 0;
}
std::string reason() {
  return simm_last_error();
}

}  // namespace gpu_allocator_test

TEST_CASE("gpu: allocated memory is registered, put and got, and free at its end") {
  using namespace gpu_allocator_test;
  const GpuWorld world;
  simm::Client client = world.connect();
  auto host = client.allocate_region(3 * kGranule);
  REQUIRE(host.has_value());
  const auto descriptors = open_descriptors();
  for (const std::uint64_t bytes : {std::uint64_t{1}, kGranule, 2 * kGranule + 7}) {
    CAPTURE(bytes);
    void* const memory = simm_gpu_malloc(bytes, 0, nullptr);
    REQUIRE_MESSAGE(memory != nullptr, reason());
    CHECK(mapped_bytes(memory) == (bytes + kGranule - 1) / kGranule * kGranule);
    auto region = client.register_region(memory, bytes);
    REQUIRE_MESSAGE(region.has_value(), (region ? "" : region.error().context));
    CHECK(region->kind() == simm::RegionKind::gpu);
    for (std::uint64_t i = 0; i < bytes; ++i) host->data()[i] = pattern(bytes, i);
    REQUIRE(client.put("host", View(*host, 0, bytes)).status == Status::ok);
    REQUIRE(client.get("host", View(*region, 0, bytes)).status == Status::ok);
    REQUIRE(client.put("gpu", View(*region, 0, bytes)).status == Status::ok);
    for (std::uint64_t i = 0; i < bytes; ++i) host->data()[i] = std::byte{0};
    REQUIRE(client.get("gpu", View(*host, 0, bytes)).status == Status::ok);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < bytes; ++i) wrong += host->data()[i] != pattern(bytes, i);
    CHECK(wrong == 0);
    REQUIRE(client.remove("host") == Status::ok);
    REQUIRE(client.remove("gpu") == Status::ok);
    REQUIRE(region->deregister());
    simm_gpu_free(memory, bytes, 0, nullptr);
    CHECK(reason() == "");
    CHECK(mapped_bytes(memory) == 0);
  }
  CHECK(eventually([&] { return world.mappings() == 0; }));
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("gpu: an allocation waits for what is queued before it is freed") {
  using namespace gpu_allocator_test;
  simm::cuda::Stream stream = nullptr;
  REQUIRE(driver().stream_create(&stream, simm::cuda::kStreamNonBlocking) == 0);
  const std::string bytes(kGranule, 'x');
  for (int round = 0; round < 50; ++round) {
    void* const memory = simm_gpu_malloc(kGranule, 0, stream);
    REQUIRE(memory != nullptr);
    const auto pointer = reinterpret_cast<simm::cuda::DevicePointer>(memory);
    for (int i = 0; i < 4; ++i) {
      REQUIRE(driver().copy_to_device(pointer, bytes.data(), bytes.size(), stream) == 0);
    }
    simm_gpu_free(memory, kGranule, 0, stream);
    // A copy into memory that is gone would be an error that sticks.
    REQUIRE(driver().stream_synchronize(stream) == simm::cuda::kSuccess);
  }
}

TEST_CASE("gpu: what can not be allocated or freed says why, and leaves nothing behind") {
  using namespace gpu_allocator_test;
  (void)driver();
  const auto descriptors = open_descriptors();
  CHECK(simm_gpu_malloc(0, 0, nullptr) == nullptr);
  CHECK(reason().find("bytes = 0") != std::string::npos);
  CHECK(simm_gpu_malloc(~std::size_t{0}, 0, nullptr) == nullptr);
  CHECK(reason().find("bytes = 18446744073709551615") != std::string::npos);
  for (const int device : {-1, 99}) {
    CHECK(simm_gpu_malloc(kGranule, device, nullptr) == nullptr);
    CHECK(reason().find("device = " + std::to_string(device)) != std::string::npos);
  }
  const simm::test_support::TemporaryDirectory directory("/tmp");
  std::ofstream(directory / "faults") << "create=2\n";
  ::setenv("SIMM_TEST_GPU_FAULTS", (directory / "faults").c_str(), 1);
  CHECK(simm_gpu_malloc(kGranule, 0, nullptr) == nullptr);
  CHECK(reason().find("CUDA_ERROR_OUT_OF_MEMORY (2)") != std::string::npos);
  ::unsetenv("SIMM_TEST_GPU_FAULTS");
  ::setenv("SIMM_TEST_GPU_DESCRIPTORS", "0", 1);
  CHECK(simm_gpu_malloc(kGranule, 0, nullptr) == nullptr);
  CHECK(reason().find("exports no memory as descriptors") != std::string::npos);
  ::unsetenv("SIMM_TEST_GPU_DESCRIPTORS");

  void* const memory = simm_gpu_malloc(2 * kGranule, 0, nullptr);
  REQUIRE(memory != nullptr);
  CHECK(reason() == "");
  simm_gpu_free(nullptr, kGranule, 0, nullptr);
  CHECK(reason() == "");
  simm_gpu_free(static_cast<char*>(memory) + kGranule, kGranule, 0, nullptr);
  CHECK(reason().find("give what simm_gpu_malloc() returned") != std::string::npos);
  {
    const CudaMalloc foreign(kGranule);
    simm_gpu_free(foreign.pointer(), kGranule, 0, nullptr);
  }
  CHECK(reason().find("give what simm_gpu_malloc() returned") != std::string::npos);
  CHECK(mapped_bytes(memory) == 2 * kGranule);
  simm_gpu_free(memory, 2 * kGranule, 0, nullptr);
  CHECK(reason() == "");
  simm_gpu_free(memory, 2 * kGranule, 0, nullptr);
  CHECK(reason().find("give what simm_gpu_malloc() returned") != std::string::npos);
  CHECK(open_descriptors() == descriptors);
}
