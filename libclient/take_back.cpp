#include "libclient/take_back.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <mutex>

#include "libclient/log.h"
#include "libclient/memory_map.h"
#include "libclient/private_pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace simm::detail {
namespace {

// Two slices may share a page: it must be exchanged once only.
std::mutex exchange_mutex;

// The file behind an adopted mapping, for which we were given no descriptor. The kernel lets only
// privileged processes open it.
ipc::UniqueFd open_mapped_file(const MapsLine& line) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/map_files/%" PRIx64 "-%" PRIx64, line.start,
                line.end);
  return ipc::UniqueFd(::open(path, O_RDWR | O_CLOEXEC));
}

// Back to sharing, so that the slice is in one of two well-defined states.
void share_range(int fd, std::uint64_t file_offset, void* place, std::uint64_t bytes) noexcept {
  const void* const restored = ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                      fd, static_cast<off_t>(file_offset));
  (void)restored;  // it succeeds: the same file at a place that was just free
}

bool replace_range(int fd, std::uint64_t file_offset, std::uint64_t start,
                   std::uint64_t bytes) noexcept {
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  // A fixed mapping that fails (no huge pages left, no memory to promise) has removed what was
  // there, under the eyes of other threads. So it is tried elsewhere first.
  const auto offset = static_cast<off_t>(file_offset);
  void* const tried = ::mmap(nullptr, bytes, kReadWrite, MAP_PRIVATE, fd, offset);
  if (tried == MAP_FAILED) return false;
  ::munmap(tried, bytes);
  // SAFETY: whole pages that the region's own mapping covers; their content stays what it is.
  void* const place = reinterpret_cast<void*>(start);
  void* const mapped = ::mmap(place, bytes, kReadWrite, MAP_PRIVATE | MAP_FIXED, fd, offset);
  // Without the copies the private mapping would still show what the daemon writes.
  if (mapped == place && ::madvise(place, bytes, MADV_POPULATE_WRITE) == 0) return true;
  share_range(fd, file_offset, place, bytes);
  return false;
}

}  // namespace

bool take_back(RegionRecord& region, std::uint64_t offset, std::uint64_t length) noexcept {
  const RegionMemory& memory = region.memory();
  const auto base = reinterpret_cast<std::uintptr_t>(memory.address);
  const std::uint64_t page = memory.page_bytes;
  const std::uint64_t first = (base + offset) / page * page;
  const std::uint64_t last = (base + offset + length + page - 1) / page * page;
  if (first < base && memory.fd.valid()) return false;  // the page's start is not in our range
  const std::lock_guard lock(exchange_mutex);
  if (!region.taken_back()) {
    Log::note(LogLevel::warning,
              "region '%s' of %" PRIu64
              " bytes: the daemon did not run in the middle of a transfer: pages of the region "
              "were taken back, and libsimm copies what lies in them",
              memory.name.c_str(), memory.length);
  }
  try {
    PrivatePages::instance().add(first, last);
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (std::uint64_t at = first; at < last;) {
    MapsLine line;
    if (!find_mapping(at, line)) return false;
    const std::uint64_t part_end = std::min(line.end, last);
    if (line.is_shared()) {  // private parts were taken back before
      const bool given = memory.fd.valid();
      const ipc::UniqueFd opened = given ? ipc::UniqueFd() : open_mapped_file(line);
      const std::uint64_t file_offset =
          given ? memory.fd_offset + (at - base) : line.offset + (at - line.start);
      const int fd = given ? memory.fd.get() : opened.get();
      if (fd < 0 || !replace_range(fd, file_offset, at, part_end - at)) return false;
    }
    at = part_end;
  }
  return true;
}

void take_back_before_fork() noexcept {
  exchange_mutex.lock();
  PrivatePages::instance().before_fork();
}
void take_back_after_fork() noexcept {
  PrivatePages::instance().after_fork();
  exchange_mutex.unlock();
}

}  // namespace simm::detail
