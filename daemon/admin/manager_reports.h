// ManagerReports: what a manager tells simmctl about itself and its cluster, as JSON texts.
// Owned by the composition root. Thread: control.
#pragma once

#include <string>
#include <string_view>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/control/admin_source.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/peers/manager_service.h"

namespace simm::control {

class ManagerReports final : public AdminSource {
public:
  // All outlive it.
  struct Setup {
    const ClusterAccess& access;
    const ManagerService& service;
    const MetricsEndpoint& metrics;
    const base::Config& config;
    base::Log& log;
  };
  explicit ManagerReports(const Setup& setup);

  [[nodiscard]] base::AdminScope scope() const noexcept override {
    return base::AdminScope::everywhere;
  }
  // `argument`: what the command's row says; of events see events_text().
  void report(base::AdminCommand command, std::string_view argument, AdminAnswer answer) override;

private:
  [[nodiscard]] std::string status() const;

  const Setup setup_;
  const base::TimeNs started_ns_;
};

}  // namespace simm::control
