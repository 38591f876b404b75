// ControlBell: how data agents wake the control thread: an eventfd that Asio watches. Ringing is
// one system call, and none while the bell has rung and nobody has answered. Thread: wake_control()
// from any; the rest control.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "daemon/control/readiness.h"
#include "daemon/session/session_mail.h"
#include "ipc/fd.h"

namespace simm::control {

class ControlBell final : public session::ControlWaker {
public:
  explicit ControlBell(boost::asio::io_context& io)
      : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), readable_(io) {}

  // Calls `on_rung` on the control thread after each ring (several rings may be one call). False:
  // no descriptor could be had.
  bool start(std::function<void()> on_rung) {
    on_rung_ = std::move(on_rung);
    if (!event_.valid() || !readable_.watch(event_.get())) return false;
    wait();
    return true;
  }

  void wake_control() noexcept override {
    if (rung_.exchange(true, std::memory_order_acq_rel)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  }

private:
  void wait() {
    readable_.when_readable([this] {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t got = ::read(event_.get(), &rings, sizeof rings);
      // Answered before the look: what is rung from here on rings again.
      rung_.exchange(false, std::memory_order_acq_rel);
      on_rung_();
      wait();
    });
  }

  ipc::UniqueFd event_;
  Readiness readable_;
  std::atomic<bool> rung_{false};
  std::function<void()> on_rung_;
};

}  // namespace simm::control
