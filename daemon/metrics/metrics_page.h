// MetricsPage: the pages that the MetricsServer shows: everything that a daemon counts, and whether
// it is alive and ready. The text is made at most once in kKeptNs, whoever asks how often, and is
// shared by all who get it: so neither time nor memory grows with the number of requesters.
// Owned by the composition root. Thread: control.
#pragma once

#include <memory>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/metrics/counter_metrics.h"
#include "daemon/metrics/metrics_source.h"
#include "daemon/metrics/process_metrics.h"
#include "daemon/metrics/thread_watch.h"

namespace simm::control {

class MetricsPage {
public:
  static constexpr base::TimeNs kKeptNs = 50 * base::kNsPerMs;

  using Text = std::shared_ptr<const std::string>;

  // All outlive it. `role`: as in simmctl status.
  MetricsPage(const base::Clock& clock, const base::CounterSet& counters, const ThreadWatch& watch,
              MetricsSource& source, std::string role);

  [[nodiscard]] Text metrics();
  // In one line why not; empty: yes. Alive: the control thread answers, and no data thread hangs.
  [[nodiscard]] std::string not_alive() const;
  [[nodiscard]] std::string not_ready() const;

private:
  [[nodiscard]] std::string make();

  const base::Clock& clock_;
  CounterMetrics counters_;
  ProcessMetrics process_;
  const ThreadWatch& watch_;
  MetricsSource& source_;
  const std::string role_;
  Text kept_;
  base::TimeNs kept_until_ns_ = 0;
  base::TimeNs made_in_ns_ = 0;
};

}  // namespace simm::control
