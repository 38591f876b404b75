// AdminReports: what a daemon with data agents tells about itself, as JSON texts, and what it finds
// out about its cluster. Names of clients are sanitised; keys do not appear.
// Thread: control.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/admin/trace_recorder.h"
#include "daemon/attach/attach_server.h"
#include "daemon/control/admin_source.h"
#include "daemon/control/environment.h"
#include "daemon/metrics/store_tenants.h"
#include "daemon/peers/cluster_presence.h"
#include "daemon/transport/rdma/device/nic_table.h"
#include "daemon/transport/rdma/registration/rail_progress.h"

namespace simm::control {

class AdminReports final : public AdminSource {
public:
  // `cluster` is null for a daemon that is in none.
  AdminReports(Environment& environment, const AttachServer& server, ClusterPresence* cluster,
               std::string role, std::uint64_t pool_bytes);

  // At set-up; without it nothing can be traced. It outlives the reports.
  void trace_with(TraceRecorder& recorder) noexcept { tracing_ = &recorder; }

  // The same for what the stores say of tenants; without it there is no such command.
  void tell_tenants(const StoreTenants& tenants) noexcept { store_tenants_ = &tenants; }

  // `argument`: of stats, a prefix of names; of sessions, "ended" for those that are over; of
  // nics, "check" for what is wrong with them; of log,
  // the level that it shall have; of events, see events_text(); of trace, see
  // TraceRecorder::record(); of peers and daemon_stats, the name of the daemon that
  // is asked (peers: empty is this one); else unused.
  void report(std::string_view command, std::string_view argument, AdminAnswer answer) override;

  // Where nics are looked for in place of /sys, by tests.
  void read_sysfs_at(std::string root) { sysfs_root_ = std::move(root); }

  // At set-up; asked each time. Without it no port is opened.
  using RailsProgress = std::function<std::vector<transport::RailProgress>()>;
  void show_rails(RailsProgress rails) { rails_ = std::move(rails); }

  // What status says of the pool's memory: its kind, and whether an earlier daemon's objects are
  // used; `why_not`: of contents that are not.
  void show_pool(std::string memory, bool is_kept, std::string why_not) {
    pool_memory_ = std::move(memory);
    pool_is_kept_ = is_kept;
    pool_why_not_ = std::move(why_not);
  }

  // At set-up; asked each time. Without it nothing is recovered.
  void show_recovery(std::function<std::uint32_t()> percent) { recovery_ = std::move(percent); }

  // What status says of where the numbers are; empty: nowhere.
  void show_metrics_at(std::string address) { metrics_address_ = std::move(address); }

private:
  [[nodiscard]] std::string status() const;
  [[nodiscard]] std::string sessions() const;
  [[nodiscard]] std::string ended_sessions() const;
  [[nodiscard]] std::string regions() const;
  [[nodiscard]] transport::NicTable read_nics() const;
  [[nodiscard]] std::string nics() const;
  [[nodiscard]] std::string nic_checks() const;
  [[nodiscard]] std::string sockets() const;
  [[nodiscard]] std::string tenants() const;
  void report_cluster(std::string_view command, const std::string& target, AdminAnswer answer);

  Environment& environment_;
  const AttachServer& server_;
  ClusterPresence* const cluster_;
  TraceRecorder* tracing_ = nullptr;
  const StoreTenants* store_tenants_ = nullptr;
  const std::string role_;
  const std::uint64_t pool_bytes_;
  const base::TimeNs started_ns_;
  std::string metrics_address_;
  std::string pool_memory_ = "none";
  bool pool_is_kept_ = false;
  std::string pool_why_not_;
  std::function<std::uint32_t()> recovery_;
  std::string sysfs_root_ = "/sys";
  RailsProgress rails_;
};

}  // namespace simm::control
