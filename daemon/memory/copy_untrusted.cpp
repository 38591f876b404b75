#include "daemon/memory/copy_untrusted.h"

#include "daemon/memory/fault_guard.h"
#include "daemon/memory/region_pages.h"
#include "ipc/range.h"
#include "simm/check.h"

namespace simm::memory {

namespace {

// The client's bytes, or null with the reason in `status`.
std::byte* admitted(const Slice& slice, std::uint64_t at, std::uint64_t bytes,
                    Status& status) noexcept {
  SIMM_CHECK(ipc::range_within(at, bytes, slice.length));
  const Region& region = *slice.region;
  if (region.base == nullptr) {
    status = Status::unsupported;
    return nullptr;
  }
  // SAFETY: RegionTable::slice() proved that the slice lies inside the region, and `at` and `bytes`
  // inside the slice were checked above.
  std::byte* const client = region.base + slice.offset + at;
  status = Status::ok;
  if (region.pages != nullptr) status = region.pages->admit(client, bytes);
  return status == Status::ok ? client : nullptr;
}

}  // namespace

Status copy_untrusted(std::byte* own, const Slice& from, std::uint64_t at,
                      std::uint64_t bytes) noexcept {
  if (bytes == 0) return Status::ok;
  Status status = Status::ok;
  const std::byte* const client = admitted(from, at, bytes, status);
  if (client == nullptr) return status;
  return FaultGuard::copy(own, client, bytes, client) ? Status::ok : Status::transfer_failed;
}

Status copy_untrusted(const Slice& to, std::uint64_t at, const std::byte* own,
                      std::uint64_t bytes) noexcept {
  if (bytes == 0) return Status::ok;
  Status status = Status::ok;
  std::byte* const client = admitted(to, at, bytes, status);
  if (client == nullptr) return status;
  return FaultGuard::copy(client, own, bytes, client) ? Status::ok : Status::transfer_failed;
}

Status stream_untrusted(std::byte* own, const Slice& from, std::uint64_t at, std::uint64_t bytes,
                        BlockSink sink) noexcept {
  if (bytes == 0) return Status::ok;
  Status status = Status::ok;
  const std::byte* const client = admitted(from, at, bytes, status);
  if (client == nullptr) return status;
  const bool copied = FaultGuard::stream(own, client, bytes, client, sink);
  return copied ? Status::ok : Status::transfer_failed;
}

Status stream_untrusted(const Slice& to, std::uint64_t at, const std::byte* own,
                        std::uint64_t bytes) noexcept {
  if (bytes == 0) return Status::ok;
  Status status = Status::ok;
  std::byte* const client = admitted(to, at, bytes, status);
  if (client == nullptr) return status;
  return FaultGuard::stream(client, own, bytes, client) ? Status::ok : Status::transfer_failed;
}

Status show_untrusted(const Slice& from, std::uint64_t at, std::uint64_t bytes,
                      BlockSink sink) noexcept {
  if (bytes == 0) return Status::ok;
  Status status = Status::ok;
  const std::byte* const client = admitted(from, at, bytes, status);
  if (client == nullptr) return status;
  return FaultGuard::show(client, bytes, sink) ? Status::ok : Status::transfer_failed;
}

std::byte* kernel_place(const Slice& to, std::uint64_t at, std::uint64_t bytes,
                        Status& status) noexcept {
  return admitted(to, at, bytes, status);
}

}  // namespace simm::memory
