// MetricsSource: what a role has to say besides its counters. Seam: the roles know different things
// and are ready for different reasons.
// Thread: control.
#pragma once

#include <string>

#include "daemon/metrics/metrics_text.h"

namespace simm::control {

class MetricsSource {
public:
  virtual ~MetricsSource() = default;
  // Whole families, of names that nobody else uses.
  virtual void write_metrics(MetricsText& text) = 0;
  // Why the daemon does not do its work now, in one line; empty: it does.
  [[nodiscard]] virtual std::string not_ready() const = 0;
};

}  // namespace simm::control
