// WatchdogFeeder: tells the service manager, as often as it wants to hear it, that the control
// thread still runs its handlers. Does nothing where nobody asked for that.
// Thread: control.
#pragma once

#include <chrono>

#include "daemon/control/deadline.h"
#include "daemon/control/service_manager.h"

namespace simm::control {

class WatchdogFeeder {
public:
  // Both outlive it.
  WatchdogFeeder(boost::asio::io_context& io, ServiceManager& service)
      : service_(service), next_(io) {}

  void start() {
    const auto interval = service_.watchdog_interval();
    if (!interval) return;
    service_.watchdog();
    const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(*interval);
    next_.after(static_cast<base::TimeNs>(wait.count()), [this] { start(); });
  }

private:
  ServiceManager& service_;
  Deadline next_;
};

}  // namespace simm::control
