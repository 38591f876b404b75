#include "daemon/memory/region_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/base/random.h"
#include "simm/check.h"

namespace simm::memory {

namespace {

constexpr std::uint64_t kPageBytes = 4096;  // of mincore; larger pages only answer more coarsely
constexpr std::uint64_t kPagesPerGranule = RegionPages::kGranuleBytes / kPageBytes;

// True one time in kSpotCheckOneIn. Each thread has its own row, which begins where the kernel put
// the thread, so a client does not know the next answer.
bool is_drawn() noexcept {
  thread_local std::uint64_t state = 0;
  if (state == 0) state = reinterpret_cast<std::uintptr_t>(&state);
  return base::splitmix64(state) % RegionPages::kSpotCheckOneIn == 0;
}

}  // namespace

RegionPages::RegionPages(const RegionPagesConfig& config, ipc::UniqueFd seek_fd)
    : config_(config), seek_fd_(std::move(seek_fd)) {
  if (config_.trust != PageTrust::none) {
    const std::uint64_t chunks = (config_.bytes + kChunkBytes - 1) / kChunkBytes;
    known_ = std::make_unique<std::atomic<std::uint64_t>[]>(chunks / 64 + 1);
  }
}

Status RegionPages::admit(const std::byte* address, std::uint64_t length) noexcept {
  const auto offset = static_cast<std::uint64_t>(address - config_.mapping);
  std::uint64_t first = offset / kPageBytes * kPageBytes;
  const std::uint64_t last = (offset + length - 1) / kPageBytes * kPageBytes + kPageBytes;
  while (first < last) {
    const std::uint64_t end = std::min(last, first / kGranuleBytes * kGranuleBytes + kGranuleBytes);
    const std::uint64_t absent = absent_in_granule(first, end);
    if (absent != 0 && !may_touch(absent)) return Status::out_of_memory;
    first = end;
  }
  return Status::ok;
}

Status RegionPages::admit_whole(const std::byte* address, std::uint64_t length,
                                bool touch) noexcept {
  const auto offset = static_cast<std::uint64_t>(address - config_.mapping);
  std::uint64_t first = offset / kPageBytes * kPageBytes;
  const std::uint64_t last = (offset + length - 1) / kPageBytes * kPageBytes + kPageBytes;
  std::uint64_t absent = 0;
  while (first < last && (touch || absent == 0)) {
    const std::uint64_t end = std::min(last, first / kGranuleBytes * kGranuleBytes + kGranuleBytes);
    absent += absent_in_granule(first, end);
    first = end;
  }
  if (absent == 0) return Status::ok;
  return touch && config_.budget->take(absent) ? Status::ok : Status::out_of_memory;
}

bool RegionPages::may_touch(std::uint64_t absent) noexcept {
  if (config_.budget->take(absent)) return true;
  has_refused_.store(true, std::memory_order_relaxed);
  return false;
}

std::uint64_t RegionPages::absent_in_granule(std::uint64_t first, std::uint64_t last) noexcept {
  if (!has_memory_of_chunks()) return absent_bytes(first, last - first);
  std::uint64_t absent = 0;
  while (first < last) {
    const std::uint64_t end = std::min(last, first / kChunkBytes * kChunkBytes + kChunkBytes);
    absent += absent_in_chunk(first, end);
    first = end;
  }
  return absent;
}

bool RegionPages::has_memory_of_chunks() const noexcept {
  if (known_ == nullptr) return false;
  return config_.trust == PageTrust::whole || !config_.budget->is_doubted();
}

bool RegionPages::is_still_whole(std::uint64_t start, std::uint64_t length) noexcept {
  if (config_.trust == PageTrust::whole || !is_drawn()) return true;
  if (absent_bytes(start, length) == 0) return true;
  // So many bytes, on average, were touched unseen before a look found the hole.
  config_.budget->doubt(kChunkBytes * kSpotCheckOneIn);
  return false;
}

std::uint64_t RegionPages::absent_in_chunk(std::uint64_t first, std::uint64_t last) noexcept {
  const std::uint64_t chunk = first / kChunkBytes;
  const std::uint64_t bit = std::uint64_t{1} << chunk % 64;
  const std::uint64_t start = chunk * kChunkBytes;
  const std::uint64_t whole = std::min(kChunkBytes, config_.bytes - start);
  const bool was_whole = (known_[chunk / 64].load(std::memory_order_relaxed) & bit) != 0;
  if (was_whole && is_still_whole(start, whole)) return 0;
  const std::uint64_t absent = absent_bytes(start, whole);
  if (absent == 0) known_[chunk / 64].fetch_or(bit, std::memory_order_relaxed);
  if (absent == 0 || last - first == whole) return absent;
  return absent_bytes(first, last - first);
}

std::uint64_t RegionPages::absent_bytes(std::uint64_t offset, std::uint64_t length) const noexcept {
  SIMM_CHECK(length <= kGranuleBytes);
  return seek_fd_ ? absent_by_seek(offset, length) : absent_by_mincore(offset, length);
}

std::uint64_t RegionPages::absent_by_mincore(std::uint64_t offset,
                                             std::uint64_t length) const noexcept {
  std::array<unsigned char, kPagesPerGranule> present;
  // SAFETY: callers keep offset + length inside the mapping, and length within a granule.
  if (::mincore(config_.mapping + offset, length, present.data()) != 0) return length;
  const auto pages = static_cast<std::ptrdiff_t>((length + kPageBytes - 1) / kPageBytes);
  const auto absent = std::count_if(present.begin(), present.begin() + pages,
                                    [](unsigned char page) { return (page & 1) == 0; });
  return static_cast<std::uint64_t>(absent) * kPageBytes;
}

std::uint64_t RegionPages::absent_by_seek(std::uint64_t offset,
                                          std::uint64_t length) const noexcept {
  std::uint64_t at = config_.file_offset + offset;
  const std::uint64_t end = at + length;
  std::uint64_t absent = 0;
  while (at < end) {
    const off_t data = ::lseek(seek_fd_.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0) return absent + (end - at);  // ENXIO: holes up to the end of the file
    const std::uint64_t present_from = std::min(end, static_cast<std::uint64_t>(data));
    absent += present_from - at;
    if (present_from == end) break;
    const off_t hole = ::lseek(seek_fd_.get(), data, SEEK_HOLE);
    if (hole <= data) return absent + (end - present_from);
    at = static_cast<std::uint64_t>(hole);
  }
  return absent;
}

}  // namespace simm::memory
