#include "libclient/present_pages.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "ipc/futex.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace simm::detail {
namespace {

constexpr std::uint64_t kSmallPageBytes = 4096;
constexpr std::uint64_t kStepBytes = 16ull << 20;

// Linux 5.14. Asked with no bytes, because a real range can be refused for other reasons.
bool kernel_populates() noexcept {
  static const bool does = ::madvise(nullptr, 0, MADV_POPULATE_READ) == 0;
  return does;
}

// Older kernels: a byte of each page is read by the kernel, which answers where a touch by this
// thread would be a signal.
bool read_each_page(std::byte* first, std::uint64_t bytes) noexcept {
  constexpr std::size_t kPagesPerCall = 64;
  std::array<iovec, kPagesPerCall> remote;
  std::array<std::byte, kPagesPerCall> sink;
  const pid_t self = ::getpid();
  for (std::uint64_t at = 0; at < bytes;) {
    std::size_t pages = 0;
    for (; pages < kPagesPerCall && at < bytes; ++pages, at += kSmallPageBytes) {
      remote[pages] = {first + at, 1};
    }
    const iovec local{sink.data(), pages};
    const ssize_t read = ::process_vm_readv(self, &local, 1, remote.data(), pages, 0);
    if (read != static_cast<ssize_t>(pages)) return false;
  }
  return true;
}

}  // namespace

bool populate(std::byte* address, std::uint64_t bytes, bool write) noexcept {
  const std::uint64_t before = reinterpret_cast<std::uintptr_t>(address) % kSmallPageBytes;
  std::byte* const first = address - before;
  const std::uint64_t whole =
      (before + bytes + kSmallPageBytes - 1) / kSmallPageBytes * kSmallPageBytes;
  if (kernel_populates()) {
    return ::madvise(first, whole, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
  }
  return !write && read_each_page(first, whole);
}

void PresentPages::open(std::byte* address, std::uint64_t bytes, bool all) {
  address_ = address;
  bytes_ = bytes;
  const std::uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  known_ = std::make_unique<std::atomic<std::uint64_t>[]>(chunks / 64 + 1);
  if (all) {
    for (std::uint64_t i = 0; i <= chunks / 64; ++i) known_[i].store(~std::uint64_t{0});
  }
  unknown_.store(all ? 0 : chunks);
}

void PresentPages::close() noexcept {
  unknown_.store(0);
  known_.reset();
}

bool PresentPages::known(std::uint64_t offset, std::uint64_t length) const noexcept {
  if (all()) return true;
  const std::uint64_t last = (offset + length - 1) / kChunkBytes;
  for (std::uint64_t chunk = offset / kChunkBytes; chunk <= last; ++chunk) {
    if (!is_known(chunk)) return false;
  }
  return true;
}

void PresentPages::remember(std::uint64_t chunk) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << chunk % 64;
  const std::uint64_t before = known_[chunk / 64].fetch_or(bit, std::memory_order_relaxed);
  if ((before & bit) == 0) unknown_.fetch_sub(1, std::memory_order_relaxed);
}

PresentPages::Made PresentPages::make(std::uint64_t offset, std::uint64_t length,
                                      std::uint64_t deadline_ns, bool anew) noexcept {
  const std::uint64_t end = (offset + length - 1) / kChunkBytes + 1;
  bool made = true;
  for (std::uint64_t chunk = offset / kChunkBytes; chunk < end;) {
    if (!anew && is_known(chunk)) {
      ++chunk;
      continue;
    }
    if (ipc::monotonic_now_ns() >= deadline_ns) return Made::late;
    const std::uint64_t most = std::min(end, chunk + kStepBytes / kChunkBytes);
    std::uint64_t next = chunk + 1;
    while (next < most && (anew || !is_known(next))) ++next;
    const std::uint64_t start = chunk * kChunkBytes;
    const std::uint64_t stop = std::min(bytes_, next * kChunkBytes);
    // SAFETY: start < stop <= bytes_, the region's.
    if (populate(address_ + start, stop - start, false)) {
      for (; chunk < next; ++chunk) remember(chunk);
      continue;
    }
    // Perhaps only the chunks' other bytes are not to be had.
    const std::uint64_t from = std::max(start, offset);
    const std::uint64_t to = std::min(stop, offset + length);
    // SAFETY: as above.
    made = populate(address_ + from, to - from, false) && made;
    chunk = next;
  }
  return made ? Made::present : Made::failed;
}

bool PresentPages::may_copy(std::uint64_t offset, std::uint64_t length, bool write) noexcept {
  // SAFETY: the range is inside the region: the caller's duty.
  return populate(address_ + offset, length, write);
}

}  // namespace simm::detail
