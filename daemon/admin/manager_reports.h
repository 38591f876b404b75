// ManagerReports: what a manager tells simmctl about itself and its cluster, as JSON texts.
// Owned by the composition root. Thread: control.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/control/admin_source.h"
#include "daemon/peers/manager_service.h"

namespace simm::control {

class ManagerReports final : public AdminSource {
public:
  // All outlive it.
  ManagerReports(const ClusterAccess& access, const ManagerService& service,
                 const base::Config& config, base::Log& log);

  // `argument`: a prefix of names for stats, the wanted level for log, else unused.
  void report(std::string_view command, std::string_view argument, AdminAnswer answer) override;

  // What status says of where the numbers are; empty: nowhere.
  void show_metrics_at(std::string address) { metrics_address_ = std::move(address); }

private:
  [[nodiscard]] std::string status() const;

  const ClusterAccess& access_;
  const ManagerService& service_;
  const base::Config& config_;
  base::Log& log_;
  const base::TimeNs started_ns_;
  std::string metrics_address_;
};

}  // namespace simm::control
