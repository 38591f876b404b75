// ProcessMetrics: what the process as a whole uses, under the names that Prometheus' own libraries
// give it (process_*). What the kernel does not tell here (no /proc) is left out.
// Owned by the MetricsPage. Thread: control.
#pragma once

#include "daemon/metrics/metrics_text.h"

namespace simm::control {

class ProcessMetrics {
public:
  ProcessMetrics();
  void write(MetricsText& text) const;

private:
  double started_s_;  // since 1970; 0: not known
};

}  // namespace simm::control
