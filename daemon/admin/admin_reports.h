// AdminReports: what a daemon with data agents tells about itself, as JSON texts, and what it finds
// out about its cluster. Names of clients are sanitised; keys appear as hashes alone.
// Thread: control.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/admin/gpus_text.h"
#include "daemon/admin/key_feed.h"
#include "daemon/admin/trace_recorder.h"
#include "daemon/attach/attach_server.h"
#include "daemon/control/admin_source.h"
#include "daemon/control/counter_totals.h"
#include "daemon/control/environment.h"
#include "daemon/memory/gpu/gpu_figures.h"
#include "daemon/metrics/hot_report.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/metrics/store_tenants.h"
#include "daemon/peers/cluster_presence.h"
#include "daemon/transport/rdma/device/nic_table.h"
#include "daemon/transport/rdma/registration/rail_progress.h"

namespace simm::control {

// The memory of the pool, as status shows it.
struct PoolStatus {
  std::string memory = "none";  // its kind
  bool is_kept = false;         // it has objects of an earlier daemon
  std::string why_fresh;        // of contents that are not kept
};

class AdminReports final : public AdminSource {
public:
  // What is asked outlives the reports. The functions are called for each report.
  struct Setup {
    Environment& environment;
    const AttachServer& server;
    std::string role;
    std::uint64_t pool_bytes = 0;
    ClusterPresence* cluster = nullptr;        // null: the daemon is in no cluster
    TraceRecorder* tracing = nullptr;          // null: nothing can be traced
    KeyFeed* key_feed = nullptr;               // null: there are no shards
    const StoreTenants* tenants = nullptr;     // null: no store tells of its tenants
    const HotReport* hot_keys = nullptr;       // null: there are no shards
    const MetricsEndpoint* metrics = nullptr;  // null: nobody reads numbers over HTTP
    PoolStatus pool = {};
    std::function<std::uint32_t()> recovery_percent = [] { return 100U; };
    std::function<std::vector<transport::RailProgress>()> rails = [] {
      return std::vector<transport::RailProgress>();
    };
    std::function<std::vector<memory::GpuView>()> gpus = [] {
      return std::vector<memory::GpuView>();
    };
    // False: there is no such GPU.
    std::function<bool(const TierOrder&)> resize_gpu_tiers = [](const TierOrder&) { return false; };
    std::string sysfs_root = "/sys";  // of the host; tests have one of their own
  };
  explicit AdminReports(Setup setup);

  [[nodiscard]] base::AdminScope scope() const noexcept override { return base::AdminScope::data; }
  // `argument`: what the command's row says; of events see events_text(), of trace
  // TraceRecorder::record(); of key_events KeyFeed::answer(); of drain drain_question(); of
  // daemon_stats the name of the daemon.
  void report(base::AdminCommand command, std::string_view argument, AdminAnswer answer) override;
  [[nodiscard]] Expected<std::string> report_without_names(base::AdminCommand command,
                                                           std::string_view argument) override;

private:
  enum class Sockets : bool { left_out, shown };  // they name tenants
  [[nodiscard]] std::string status(Sockets shown) const;
  [[nodiscard]] std::string sessions() const;
  [[nodiscard]] std::string ended_sessions() const;
  [[nodiscard]] std::string regions() const;
  [[nodiscard]] transport::NicTable read_nics() const;
  [[nodiscard]] std::string nics() const;
  [[nodiscard]] std::string nic_checks() const;
  [[nodiscard]] std::string sockets() const;
  [[nodiscard]] std::string tenants() const;
  [[nodiscard]] std::string hot(HotReport::Names names) const;
  void gpus(std::string_view argument, const AdminAnswer& answer);
  void drain(std::string_view argument, AdminAnswer answer);
  // Of the manager, through this daemon's connection to it.
  void ask_manager(cluster::Topic topic, const std::string& target, AdminAnswer answer);

  const Setup setup_;
  const base::TimeNs started_ns_;
  CounterTotals totals_;
};

}  // namespace simm::control
