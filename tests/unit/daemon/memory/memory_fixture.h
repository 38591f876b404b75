// Shared parts of the memory tests: memfds, regions, ranges of bytes.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "daemon/memory/region_memory.h"
#include "ipc/memory_file.h"

namespace simm::memory::testing {

inline constexpr std::uint64_t kPage = 4096;

// A memfd as any program makes it: no seal, no page.
inline ipc::UniqueFd plain_memfd(std::uint64_t bytes, unsigned flags = 0) {
  ipc::UniqueFd fd(::memfd_create("simm-test", MFD_CLOEXEC | flags));
  REQUIRE(fd.valid());
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  return fd;
}

// As a client does that touches its memory. (What fallocate() made does not count as present.)
inline void make_present(int fd, std::uint64_t bytes) {
  const std::string zeros(bytes, '\0');
  REQUIRE(::pwrite(fd, zeros.data(), zeros.size(), 0) == static_cast<ssize_t>(bytes));
}

inline ipc::UniqueFd duplicate(int fd) {
  return ipc::UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

// Budgets and a region of a whole file.
struct Fixture {
  PinBudget pins{"session", 1ull << 50, 4096};
  TouchBudget touches;

  explicit Fixture(std::uint64_t touch_bytes = 1ull << 40) : touches(touch_bytes) {}

  // `lasting`: as a daemon with several tenants has it.
  Expected<std::unique_ptr<RegionMemory>> map(ipc::UniqueFd fd, RegionMemory::Spec spec,
                                              MappedFiles* lasting = nullptr) {
    Expected<ipc::MemoryFile> file = ipc::MemoryFile::inspect(std::move(fd));
    REQUIRE(file);
    Expected<PinCharge> charge = pins.charge(spec.length);
    REQUIRE(charge);
    return RegionMemory::map(std::move(file).value(), spec, touches, std::move(charge).value(),
                             lasting);
  }

  std::unique_ptr<RegionMemory> region(int fd, std::uint64_t length, std::uint64_t offset = 0,
                                       MappedFiles* lasting = nullptr) {
    RegionMemory::Spec spec;
    spec.length = length;
    spec.file_offset = offset;
    auto made = map(duplicate(fd), spec, lasting);
    REQUIRE_MESSAGE(made, (made ? std::string() : made.error().context));
    return std::move(made).value();
  }
};

inline Slice whole(const RegionMemory& memory) {
  return {&memory.region(), 0, memory.region().length};
}

}  // namespace simm::memory::testing
