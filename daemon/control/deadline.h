// Deadline: one call at a later time. Wraps Asio's timer, whose handler may still come after the
// timer is gone (it was on its way): here nothing is called after cancel() or the destructor.
// Thread: control.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/control/asio.h"

namespace simm::control {

class Deadline {
public:
  explicit Deadline(boost::asio::io_context& io) : timer_(io) {}
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // Takes the place of an earlier call that has not come yet.
  void after(base::TimeNs wait_ns, std::function<void()> call) {
    cancel();
    timer_.expires_after(std::chrono::nanoseconds(wait_ns));
    timer_.async_wait([call = std::move(call), alive = std::weak_ptr<bool>(alive_)](
                          const boost::system::error_code& cancelled) {
      if (!cancelled && !alive.expired()) call();
    });
  }

  void cancel() {
    alive_ = std::make_shared<bool>(true);
    timer_.cancel();
  }

private:
  boost::asio::steady_timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
