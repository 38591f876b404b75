// WatchdogFeeder: tells the service manager, as often as it wants to hear it, that the daemon is
// alive: that the control thread runs its handlers, and that everybody else whom `are_alive` asks
// has come round since the last time. So the slowest agent decides. Does nothing where nobody asked
// for that. Thread: control.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "daemon/control/deadline.h"
#include "daemon/control/service_manager.h"

namespace simm::control {

class WatchdogFeeder {
public:
  // Both outlive it. `are_alive` is called once in each interval.
  WatchdogFeeder(boost::asio::io_context& io, ServiceManager& service,
                 std::function<bool()> are_alive)
      : service_(service), are_alive_(std::move(are_alive)), next_(io) {}

  void start() {
    if (!service_.watchdog_interval()) return;
    service_.watchdog();
    look_later();
  }

private:
  // Twice in each interval, so that one look that came too early does not cost the daemon its life.
  void look_later() {
    const auto interval =
        std::chrono::duration_cast<std::chrono::nanoseconds>(*service_.watchdog_interval());
    next_.after(static_cast<base::TimeNs>(interval.count()) / 2, [this] {
      if (are_alive_()) service_.watchdog();
      look_later();
    });
  }

  ServiceManager& service_;
  const std::function<bool()> are_alive_;
  Deadline next_;
};

}  // namespace simm::control
