// StatusSource: what the status page shows, behind the MetricsServer. Seam: the roles have
// different things to show, and those who know them stand above this room
// (daemon/admin/status_report.h). Thread: control.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace simm::control {

class StatusSource {
public:
  // A JSON object, shared by all who get it.
  using Text = std::shared_ptr<const std::string>;

  virtual ~StatusSource() = default;
  // Calls `answer` once: in here, or within a second.
  virtual void tell(std::function<void(Text)> answer) = 0;
};

}  // namespace simm::control
