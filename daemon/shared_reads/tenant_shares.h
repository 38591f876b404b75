// TenantShares: who uses how much of a shared-read shard. What is in use (being fetched, copied
// from, or waited for) can not be taken back until whoever uses it lets go, so nobody may use all
// of it: dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
// shared-memory packet switches", 1998). A tenant may use up to kFactor times what nobody uses:
// four fifths when it is alone, four ninths each of two; a newcomer always finds some. Copies that
// only rest can be taken back, and are governed by fair parts instead: see exceeds_fair_part().
//
// Numbers only; the shared-read server keeps them. Thread: its data agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/shared_reads/shared_read.h"

namespace simm::shared_reads {

struct TenantShare {
  base::TenantId tenant;
  std::uint32_t members = 0;  // jobs and shared reads; 0: another tenant may have this share
  std::uint64_t bytes = 0;    // of the extents of all its shared reads
  std::uint32_t shared_reads = 0;
  std::uint64_t used_bytes = 0;         // of those that are not idle
  std::uint32_t used_shared_reads = 0;  // that are not idle
  std::uint32_t waiters = 0;
  std::uint32_t fetches = 0;
  store::IndexList<SharedReadJob, &SharedReadJob::arrived> arrived;
  store::IndexList<SharedRead, &SharedRead::order> queued;
  store::IndexList<SharedRead, &SharedRead::idle_of_share> idle;  // the least recently used first
};

class TenantShares {
public:
  static constexpr std::uint64_t kFactor = 4;

  struct Limits {
    std::uint64_t bytes;
    std::uint32_t shared_reads;
    std::uint32_t waiters;
    std::uint32_t fetches;
  };

  TenantShares(std::uint32_t tenants_max, const Limits& limits);

  // The share of a tenant for one more member; tenants beyond tenants_max share the last one.
  [[nodiscard]] std::uint32_t enter(base::TenantId tenant) noexcept;
  void leave(std::uint32_t share) noexcept;

  [[nodiscard]] bool may_use(std::uint32_t share, std::uint64_t extent_bytes) const noexcept;
  void use(std::uint32_t share, std::uint64_t extent_bytes) noexcept;
  void let_go(std::uint32_t share, std::uint64_t extent_bytes) noexcept;

  [[nodiscard]] bool may_wait(std::uint32_t share) const noexcept;
  void add_waiter(std::uint32_t share) noexcept;
  void remove_waiter(std::uint32_t share) noexcept;

  [[nodiscard]] bool may_fetch(std::uint32_t share) const noexcept;
  void add_fetch(std::uint32_t share) noexcept;
  void remove_fetch(std::uint32_t share) noexcept;

  // A shared read begins, in use, and ends; it is a member meanwhile.
  void add_shared_read(std::uint32_t share, std::uint64_t extent_bytes) noexcept;
  void remove_shared_read(std::uint32_t share, std::uint64_t extent_bytes) noexcept;
  // Whether one shared read more is beyond an equal part of everything, among those that have
  // shared reads and this one. Such a tenant takes room from its own copies only.
  [[nodiscard]] bool exceeds_fair_part(std::uint32_t share,
                                       std::uint64_t extent_bytes) const noexcept;

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  TenantShare& operator[](std::uint32_t share) noexcept { return shares_[share]; }
  const TenantShare& operator[](std::uint32_t share) const noexcept { return shares_[share]; }

private:
  const std::uint32_t size_;
  const Limits limits_;
  const std::unique_ptr<TenantShare[]> shares_;
  std::uint32_t owners_ = 0;  // shares with shared reads
  std::uint64_t used_bytes_ = 0;
  std::uint32_t used_shared_reads_ = 0;
  std::uint32_t waiters_ = 0;
  std::uint32_t fetches_ = 0;
};

}  // namespace simm::shared_reads
