// GpuBuffer: memory of a GPU as an engine makes it, by calls of the driver, with a way for the test
// to look at the bytes that is not the one under test: a mapping of the allocation's file, which
// only the tests' driver has. Thread: the test's.
#pragma once

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
  explicit GpuBuffer(std::uint64_t bytes, int handle_types = simm::cuda::kHandlePosixDescriptor)
      : bytes_(bytes) {
    simm::cuda::AllocationProperties wanted{};
    wanted.type = simm::cuda::kAllocationPinned;
    wanted.requested_handle_types = handle_types;
    wanted.location = {simm::cuda::kLocationDevice, 0};
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

}  // namespace gpu_tests
