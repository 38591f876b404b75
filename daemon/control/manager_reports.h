// ManagerReports: what a manager tells simmctl about itself and its cluster, as JSON texts.
// Owned by the composition root. Thread: control.
#pragma once

#include <string>
#include <string_view>

#include "daemon/control/admin_source.h"
#include "daemon/control/manager_service.h"

namespace simm::control {

class ManagerReports final : public AdminSource {
public:
  // `state_file`, for people to find it.
  ManagerReports(const ClusterAccess& access, const ManagerService& service,
                 std::string state_file);

  // `argument`: a prefix of names for stats, else unused.
  void report(std::string_view command, std::string_view argument, AdminAnswer answer) override;

private:
  [[nodiscard]] std::string status() const;

  const ClusterAccess& access_;
  const ManagerService& service_;
  const std::string state_file_;
  const base::TimeNs started_ns_;
};

}  // namespace simm::control
