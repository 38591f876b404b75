// ManagerReports: what a manager tells simmctl about itself and its cluster, as JSON texts.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/control/admin_source.h"
#include "daemon/control/counter_totals.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/peers/manager_service.h"
#include "daemon/peers/manager_survey.h"

namespace simm::control {

// How this manager stands with etcd.
struct ElectionReport {
  bool is_held = false;        // false: there is no etcd, the state is in a file
  std::string leader;          // empty: unknown
  std::string trouble;         // why etcd can not be asked
  std::int64_t term = 0;       // see etcd::Leadership
  std::uint64_t lease_ms = 0;  // of this manager, still; 0: it does not lead
};

class ManagerReports final : public AdminSource {
public:
  // All outlive it. `election` is called for each report.
  struct Setup {
    ClusterAccess& access;
    const ManagerService& service;
    const MetricsEndpoint& metrics;
    const base::Config& config;
    base::Log& log;
    std::function<ElectionReport()> election;
  };
  explicit ManagerReports(const Setup& setup);

  [[nodiscard]] base::AdminScope scope() const noexcept override {
    return base::AdminScope::everywhere;
  }
  // `argument`: what the command's row says; of events see events_text().
  void report(base::AdminCommand command, std::string_view argument, AdminAnswer answer) override;
  [[nodiscard]] Expected<std::string> report_without_names(base::AdminCommand command,
                                                           std::string_view argument) override;

  // What this manager is just now: a row of `simmctl managers`, but for address and name.
  [[nodiscard]] std::string own_row() const;
  // Talks to no other manager any more.
  void stop() { survey_.stop(); }

private:
  [[nodiscard]] std::string status() const;

  const Setup setup_;
  const base::TimeNs started_ns_;
  ManagerSurvey survey_;
  CounterTotals totals_;
};

}  // namespace simm::control
