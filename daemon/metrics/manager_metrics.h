// ManagerMetrics: what a manager has to say besides its counters: the map and the members. By
// member at most kMembersShown, the first by name; how many are left out is a metric of its own.
// Owned by the composition root. Thread: control.
#pragma once

#include "daemon/metrics/metrics_source.h"
#include "daemon/peers/manager_service.h"

namespace simm::control {

class ManagerMetrics final : public MetricsSource {
public:
  static constexpr std::size_t kMembersShown = 256;

  ManagerMetrics(const base::Clock& clock, const ManagerService& service)
      : clock_(clock), service_(service) {}

  void write_metrics(MetricsText& text) override;
  [[nodiscard]] std::string not_ready() const override;

private:
  void write_members(MetricsText& text) const;

  const base::Clock& clock_;
  const ManagerService& service_;
};

}  // namespace simm::control
