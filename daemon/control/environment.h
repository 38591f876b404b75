// Environment: what every part of the control thread works with. Made by the composition root;
// outlives them all. Thread: control.
#pragma once

#include "daemon/base/config.h"
#include "daemon/base/counters.h"
#include "daemon/base/error_log.h"
#include "daemon/base/event_log.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/control/asio.h"
#include "daemon/control/job_thread.h"

namespace simm::control {

struct Environment {
  boost::asio::io_context& io;
  const base::Config& config;
  const base::Clock& clock;
  base::CounterSet& counters;
  base::LimitCounters& limits;
  base::ErrorLog& errors;
  base::Log& log;
  JobThread& registrar;
  base::EventLog& events;
};

}  // namespace simm::control
