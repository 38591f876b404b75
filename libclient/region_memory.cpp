#include "libclient/region_memory.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ipc/memory_file.h"
#include "ipc/range.h"
#include "libclient/memory_map.h"
#include "libclient/private_pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace simm::detail {
namespace {

constexpr std::uint64_t kPrefaultPartBytes = 256ull << 20;  // worth a thread
constexpr unsigned kPrefaultThreadsMax = 8;
constexpr int kNumaNodesMax = 1024;

Outcome bind_to_node(const ipc::Mapping& mapping, int node) {
  if (node < 0) return Done{};
  if (node >= kNumaNodesMax) {
    return Error{Status::invalid_argument, "numa_node = " + std::to_string(node) + ": at most " +
                                               std::to_string(kNumaNodesMax - 1)};
  }
  constexpr unsigned kWordBits = sizeof(unsigned long) * CHAR_BIT;
  unsigned long nodes[kNumaNodesMax / kWordBits] = {};
  const auto bit = static_cast<unsigned>(node);
  nodes[bit / kWordBits] = 1ul << bit % kWordBits;
  // The system call itself: for its wrapper alone each program would need libnuma.
  if (::syscall(SYS_mbind, mapping.data(), mapping.bytes(), long{MPOL_BIND}, nodes,
                long{kNumaNodesMax}, 0L) != 0) {
    return Error{Status::invalid_argument,
                 "numa_node = " + std::to_string(node) +
                     ": this machine can not bind memory to it; use -1 for no binding"};
  }
  return Done{};
}

void prefault_part(std::byte* address, std::uint64_t bytes) noexcept {
  if (::madvise(address, bytes, MADV_POPULATE_WRITE) == 0 || errno != EINVAL) return;
  // An older kernel: touch each page. The memory may be in use already, so nothing is changed.
  constexpr std::uint64_t kPageBytes = 4096;
  for (std::uint64_t at = 0; at < bytes; at += kPageBytes) {
    std::atomic_ref<unsigned char>(reinterpret_cast<unsigned char&>(address[at]))
        .fetch_or(0, std::memory_order_relaxed);
  }
}

}  // namespace

void prefault(std::byte* address, std::uint64_t bytes) noexcept {
  const std::uint64_t parts =
      std::min<std::uint64_t>({bytes / kPrefaultPartBytes + 1, kPrefaultThreadsMax,
                               std::max(1u, std::thread::hardware_concurrency())});
  // Whole huge pages each, so that two threads do not meet in one.
  constexpr std::uint64_t kAlign = 2ull << 20;
  const std::uint64_t part_bytes = (bytes / parts + kAlign - 1) / kAlign * kAlign;
  std::uint64_t at = 0;
  try {
    std::vector<std::thread> threads;
    threads.reserve(parts);
    try {
      for (; at + part_bytes < bytes; at += part_bytes) {
        threads.emplace_back(prefault_part, address + at, part_bytes);
      }
    } catch (const std::system_error&) {
      // No more threads: this one does the rest.
    }
    if (at < bytes) prefault_part(address + at, bytes - at);
    for (std::thread& thread : threads) thread.join();
  } catch (const std::bad_alloc&) {
    prefault_part(address, bytes);
  }
}

Expected<RegionMemory> make_shared_memory(std::uint64_t bytes, const AllocateOptions& options) {
  if (bytes == 0) return Error{Status::invalid_argument, "bytes = 0: a region has at least 1 byte"};
  constexpr std::size_t kNameMax = 249;  // the kernel's, of a memory file
  if (options.name.size() > kNameMax) {
    return Error{Status::invalid_argument, "name: " + std::to_string(options.name.size()) +
                                               " bytes; a region has at most " +
                                               std::to_string(kNameMax)};
  }
  ipc::MemoryFileSpec spec;
  spec.name = options.name;
  spec.bytes = bytes;
  spec.huge_pages = options.huge_pages;
  // Without a binding the file allocates its pages at once, and says so when there are too few.
  spec.prefault = options.prefault && options.numa_node < 0;
  Expected<ipc::MemoryFile> file = ipc::MemoryFile::create(spec);
  if (!file) return std::move(file).error();
  Expected<ipc::Mapping> mapping = ipc::Mapping::map(file->fd(), 0, file->bytes());
  if (!mapping) return std::move(mapping).error();
  if (Outcome bound = bind_to_node(*mapping, options.numa_node); !bound) {
    return std::move(bound).error();
  }
  if (options.prefault) prefault(mapping->data(), mapping->bytes());

  RegionMemory memory;
  memory.address = mapping->data();
  memory.length = bytes;
  memory.name = options.name;
  memory.page_bytes = file->page_bytes();
  memory.huge_pages = file->huge_pages();
  memory.is_present = options.prefault;
  memory.mapping = std::move(*mapping);
  memory.fd = file->release();
  memory.wish = RegionKind::shared;
  memory.stopped_daemon = options.stopped_daemon;
  return memory;
}

Expected<RegionMemory> take_descriptor(int fd, std::uint64_t offset, std::uint64_t bytes,
                                       void* address, const RegisterOptions& options) {
  ipc::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_error("fd = " + std::to_string(fd), errno);
  Expected<ipc::MemoryFile> file = ipc::MemoryFile::inspect(std::move(copy));
  if (!file) return std::move(file).error();
  const std::uint64_t page = file->page_bytes();
  if (bytes == 0 || !ipc::range_within(offset, bytes, file->bytes()) || offset % page != 0) {
    return Error{Status::invalid_argument, "offset = " + std::to_string(offset) +
                                               ", bytes = " + std::to_string(bytes) +
                                               ": a range of whole pages (" + std::to_string(page) +
                                               " bytes) at its start, inside the file's " +
                                               std::to_string(file->bytes()) + " bytes"};
  }
  PrivatePages& private_pages = PrivatePages::instance();
  const std::uint64_t changes = private_pages.changes();
  if (address != nullptr && !is_mapping_of(fd, offset, address, bytes)) {
    return Error{Status::invalid_argument,
                 "address = " + std::to_string(reinterpret_cast<std::uintptr_t>(address)) +
                     ": not a shared mapping of fd = " + std::to_string(fd) + " from offset = " +
                     std::to_string(offset) + " on: give what mmap() of these " +
                     std::to_string(bytes) + " bytes answered, or null"};
  }
  RegionMemory memory;
  memory.length = bytes;
  memory.name = "fd";
  memory.fd_offset = offset;
  memory.page_bytes = page;
  memory.huge_pages = file->huge_pages();
  memory.can_shrink = !file->cannot_shrink();
  memory.wish = RegionKind::shared;
  memory.stopped_daemon = options.stopped_daemon;
  memory.address = static_cast<std::byte*>(address);
  if (address == nullptr) {
    Expected<ipc::Mapping> mapping = ipc::Mapping::map(file->fd(), offset, bytes);
    if (!mapping) return std::move(mapping).error();
    memory.address = mapping->data();
    memory.mapping = std::move(*mapping);
  } else {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    private_pages.forget(start, start + bytes, changes);
  }
  memory.is_read_only = any_read_only(memory.address, bytes);
  memory.fd = file->release();
  return memory;
}

}  // namespace simm::detail
