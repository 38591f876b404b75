// FairQueue: whose turn it is to move bytes. Deficit round robin (Shreedhar and Varghese, 1996)
// over tenants, in bytes; within a tenant first come, first served. A page may be longer than the
// quantum: the tenant then runs up a debt and misses turns until it is paid. A tenant that is alone
// has none. Thread: the server's data agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/ids.h"
#include "daemon/base/intrusive_list.h"
#include "daemon/server/job.h"

namespace simm::server {

class FairQueue {
public:
  FairQueue(std::uint32_t tenants_max, std::uint64_t quantum_bytes);

  // The lane of a tenant for one more job; tenants beyond tenants_max share the last lane.
  [[nodiscard]] std::uint32_t enter(base::TenantId tenant) noexcept;
  void leave(std::uint32_t lane) noexcept;

  // The job is on no list, and can use a turn now.
  void push(Job& job) noexcept;
  void remove(Job& job) noexcept;

  // Whose turn it is; null when nobody waits, or everybody is in debt still (ask again).
  [[nodiscard]] Job* next() noexcept;
  // What the job that next() named has used.
  void charge(const Job& job, std::uint64_t bytes) noexcept;

  [[nodiscard]] bool empty() noexcept { return waiting_.empty(); }
  // Bytes charged to a tenant's lane, for tests of fairness.
  [[nodiscard]] std::uint64_t charged_bytes(base::TenantId tenant) const noexcept;

private:
  struct LaneTag {};
  struct Lane : base::ListLink<LaneTag> {
    base::TenantId tenant;
    std::uint32_t jobs = 0;  // entered
    std::int64_t credit_bytes = 0;
    std::uint64_t charged_bytes = 0;
    JobList queue;
  };

  const std::uint32_t lane_count_;
  const std::int64_t quantum_bytes_;
  const std::unique_ptr<Lane[]> lanes_;
  std::uint32_t occupied_ = 0;                  // lanes with a job, queued or not
  base::IntrusiveList<Lane, LaneTag> waiting_;  // lanes with a job in their queue
};

}  // namespace simm::server
