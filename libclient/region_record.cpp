#include "libclient/region_record.h"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "ipc/futex.h"
#include "ipc/range.h"

namespace simm::detail {

void RegionRecord::end_use() noexcept {
  const std::uint32_t before = users_.fetch_sub(1, std::memory_order_seq_cst);
  if (before == 1 && closed_.load(std::memory_order_seq_cst)) {
    // SAFETY: std::atomic<std::uint32_t> is a plain word on every platform that has futexes.
    ipc::futex_wake_one(reinterpret_cast<std::uint32_t*>(&users_));
  }
}

bool RegionRecord::covers(std::uint64_t address, std::uint64_t length) const noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(this->address());
  return address >= start && ipc::range_within(address - start, length, this->length());
}

std::uint64_t RegionRecord::length_in_file() const noexcept {
  struct stat file {};
  if (::fstat(memory_.fd.get(), &file) != 0) return length();
  const std::uint64_t page = memory_.page_bytes;
  // The last page is there as a whole.
  const std::uint64_t end = (static_cast<std::uint64_t>(file.st_size) + page - 1) / page * page;
  return end > memory_.fd_offset ? std::min(length(), end - memory_.fd_offset) : 0;
}

void RegionRecord::open(RegionMemory memory, std::uint32_t generation) {
  present_.open(memory.address, memory.length, memory.is_present);
  memory_ = std::move(memory);
  address_.store(memory_.address, std::memory_order_relaxed);
  length_.store(memory_.length, std::memory_order_relaxed);
  generation_.store(generation, std::memory_order_relaxed);
  kind_.store(RegionKind::staged, std::memory_order_relaxed);
  private_seen_.store(0, std::memory_order_relaxed);
  wire_.store(0, std::memory_order_relaxed);
  closed_.store(false, std::memory_order_seq_cst);
}

bool RegionRecord::wait_unused(std::uint64_t deadline_ns) noexcept {
  for (;;) {
    const std::uint32_t users = users_.load(std::memory_order_seq_cst);
    if (users == 0) return true;
    // Two threads may wait here and one of them is woken: a short sleep bounds the other one's.
    constexpr std::uint64_t kNapNs = 1'000'000;
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    if (now_ns >= deadline_ns) return false;
    // SAFETY: as in end_use().
    ipc::futex_wait(reinterpret_cast<std::uint32_t*>(&users_), users, now_ns + kNapNs);
  }
}

void RegionRecord::release() noexcept {
  if (memory_.mapping.data() != nullptr) {
    PrivatePages::instance().forget(memory_.address, memory_.length);
  }
  length_.store(0, std::memory_order_relaxed);
  address_.store(nullptr, std::memory_order_relaxed);
  wire_.store(0, std::memory_order_relaxed);
  memory_ = RegionMemory{};
  present_.close();
}

void RegionRecord::set_wire(std::uint32_t session_generation, ipc::RegionHandle handle,
                            RegionKind kind, std::string reason) {
  {
    const std::lock_guard lock(reasons_mutex_);
    reason_ = std::move(reason);
  }
  kind_.store(kind, std::memory_order_seq_cst);
  wire_.store(std::uint64_t{session_generation} << 32 | handle, std::memory_order_release);
}

bool RegionRecord::has_private_pages(std::uint64_t offset, std::uint64_t length) const noexcept {
  const PrivatePages& pages = PrivatePages::instance();
  const std::uint64_t changes = pages.changes();
  const auto start = reinterpret_cast<std::uintptr_t>(address());
  std::uint64_t seen = private_seen_.load(std::memory_order_relaxed);
  if (seen >> 1 != changes) {
    seen = changes << 1 | (pages.touches(start, start + this->length()) ? 1 : 0);
    private_seen_.store(seen, std::memory_order_relaxed);
  }
  return (seen & 1) != 0 && pages.touches(start + offset, start + offset + length);
}

std::string RegionRecord::reason() const {
  const auto start = reinterpret_cast<std::uintptr_t>(address());
  const std::uint64_t bytes = PrivatePages::instance().bytes(start, start + length());
  const std::lock_guard lock(reasons_mutex_);
  if (bytes == 0) return reason_;
  return reason_ + "; but " + std::to_string(bytes) +
         " bytes are copied: they were taken back from a daemon that did not run in the middle of "
         "a transfer";
}

}  // namespace simm::detail
