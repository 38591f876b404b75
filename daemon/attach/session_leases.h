// SessionLeases: memory of GPUs that one session lends to the daemon (memory/gpu/gpu_lease.h), and
// its requests about that: GpuLend, GpuReclaim. A session lends where its tenant's configuration
// allows it, on GPUs on which the session has, or had, a region: an engine that sleeps has let go
// of its pages. A lease ends with its session at the latest.
//
// A request is answered when the helper of the GPU has done what it takes, which is a matter of
// milliseconds. A reclaim that is not done in the lender's notice is answered `timeout`: the lease
// is over then, and the memory on its way back.
//
// Owned by its Attachment; an answer keeps that alive. One request at a time. Thread: control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/attach/region_opener.h"
#include "daemon/attach/tenant_rules.h"
#include "daemon/base/clock.h"
#include "daemon/control/deadline.h"
#include "daemon/control/environment.h"
#include "ipc/control_message.h"

namespace simm::control {

class SessionLeases {
public:
  static constexpr std::size_t kLeasesMax = 64;
  static constexpr std::uint32_t kNoticeMsMax = 10'000;
  using Answer = std::function<void(const ipc::LeaseReply&)>;

  SessionLeases(Environment& environment, JobThread& adopter, RegionOpener& opener,
                const Tenant& tenant, std::uint64_t session_id);

  // The session has a region on that GPU.
  void on_region(std::string gpu) { gpus_.insert(std::move(gpu)); }
  void lend(const ipc::GpuLend& wanted, Answer answer);
  void reclaim(const ipc::GpuReclaim& wanted, Answer answer);
  // The session is over: so are all leases. The tiers give the memory back by their next look.
  void end();

private:
  struct Lease {
    std::unique_ptr<memory::GpuLease> lease;
    std::uint32_t notice_ms = 0;
  };
  // What the adopter has made of a request.
  struct Made {
    Outcome outcome = Done{};
    std::unique_ptr<memory::GpuLease> lease;
    memory::GpuOrder order;
  };
  using Then = std::function<void(memory::GpuOrder::State)>;
  [[nodiscard]] Outcome check(const ipc::GpuLend& wanted, const std::string& gpu) const;
  void on_lent(const std::shared_ptr<Made>& made, const ipc::GpuLend& wanted, Answer answer);
  void keep(const std::shared_ptr<Made>& made, const ipc::GpuLend& wanted, const Answer& answer);
  // Calls `then` when the order is over, or that time has come (`pending`).
  void await(memory::GpuOrder order, base::TimeNs until_ns, Then then);
  void tell(base::EventKind kind, const memory::GpuLease& lease, const char* cause);

  Environment& environment_;
  JobThread& adopter_;
  RegionOpener& opener_;
  const Tenant& tenant_;
  const std::uint64_t session_id_;
  Deadline look_;
  std::set<std::string> gpus_;
  std::map<std::uint64_t, Lease> leases_;  // by number
  std::uint64_t next_number_ = 1;
  bool is_over_ = false;
};

}  // namespace simm::control
