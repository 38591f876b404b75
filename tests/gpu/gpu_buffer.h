// GpuBuffer: memory of a GPU as an engine makes it, by calls of the driver, with a way for the test
// to look at the bytes that is not the one under test: a mapping of the allocation's file, which
// only the tests' driver has. Thread: the test's.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ipc/cuda/driver.h"

namespace gpu_tests {

using simm::cuda::Driver;

inline const Driver& driver() {
  static const Driver* const loaded = [] {
    auto driver = Driver::load();
    REQUIRE(driver);
    REQUIRE((*driver)->init(0) == simm::cuda::kSuccess);
    simm::cuda::Context context = nullptr;
    REQUIRE((*driver)->primary_context_retain(&context, 0) == simm::cuda::kSuccess);
    REQUIRE((*driver)->context_set_current(context) == simm::cuda::kSuccess);
    return *driver;
  }();
  return *loaded;
}

class GpuBuffer {
public:
  // Whole granules, all 0xcd. `handle_types`: 0 as of somebody who does not export.
  explicit GpuBuffer(std::uint64_t bytes, int handle_types = simm::cuda::kHandlePosixDescriptor,
                     int device = 0)
      : bytes_(bytes) {
    simm::cuda::AllocationProperties wanted{};
    wanted.type = simm::cuda::kAllocationPinned;
    wanted.requested_handle_types = handle_types;
    wanted.location = {simm::cuda::kLocationDevice, device};
    REQUIRE(driver().memory_create(&handle_, bytes_, &wanted, 0) == simm::cuda::kSuccess);
    REQUIRE(driver().address_reserve(&address_, bytes_, 0, 0, 0) == simm::cuda::kSuccess);
    REQUIRE(driver().memory_map(address_, bytes_, 0, handle_, 0) == simm::cuda::kSuccess);
    const simm::cuda::AccessDescription access{wanted.location, simm::cuda::kAccessReadWrite};
    REQUIRE(driver().memory_set_access(address_, bytes_, &access, 1) == simm::cuda::kSuccess);
    if (handle_types == 0) return;
    int file = -1;
    REQUIRE(driver().memory_export(&file, handle_, simm::cuda::kHandlePosixDescriptor, 0) ==
            simm::cuda::kSuccess);
    void* const seen = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    REQUIRE(seen != MAP_FAILED);
    seen_ = static_cast<std::byte*>(seen);
    fill(std::byte{0xcd});
  }
  ~GpuBuffer() {
    if (seen_ != nullptr) ::munmap(seen_, bytes_);
    (void)driver().memory_unmap(address_, bytes_);
    (void)driver().address_free(address_, bytes_);
    (void)driver().memory_release(handle_);
  }
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  // As a kernel of the caller's sees it: the host can not touch it.
  [[nodiscard]] void* pointer() const { return reinterpret_cast<void*>(address_); }
  [[nodiscard]] simm::cuda::DevicePointer address() const { return address_; }
  [[nodiscard]] std::span<std::byte> seen() const { return {seen_, bytes_}; }
  void fill(std::byte value) const {
    for (std::byte& byte : seen()) byte = value;
  }

private:
  const std::uint64_t bytes_;
  simm::cuda::AllocationHandle handle_ = 0;
  simm::cuda::DevicePointer address_ = 0;
  std::byte* seen_ = nullptr;
};

// Memory as cudaMalloc makes it, and PyTorch by default: the driver exports none of it.
class CudaMalloc {
public:
  explicit CudaMalloc(std::uint64_t bytes) {
    const auto allocate =
        call<simm::cuda::Result(simm::cuda::DevicePointer*, std::size_t)>("cuMemAlloc_v2");
    REQUIRE(allocate(&address_, bytes) == simm::cuda::kSuccess);
  }
  ~CudaMalloc() {
    (void)call<simm::cuda::Result(simm::cuda::DevicePointer)>("cuMemFree_v2")(address_);
  }
  CudaMalloc(const CudaMalloc&) = delete;
  CudaMalloc& operator=(const CudaMalloc&) = delete;

  [[nodiscard]] void* pointer() const { return reinterpret_cast<void*>(address_); }

private:
  // A function that the product does not call.
  template <typename Function>
  static Function* call(const char* name) {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(library != nullptr);
    void* const address = ::dlsym(library, name);
    ::dlclose(library);
    REQUIRE(address != nullptr);
    return reinterpret_cast<Function*>(address);
  }

  simm::cuda::DevicePointer address_ = 0;
};

}  // namespace gpu_tests
