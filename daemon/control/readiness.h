// Readiness: tells when a descriptor that somebody else owns can be read or written. Wraps Asio's
// descriptor, which would close it: here the owner keeps it, and must keep it open longer than the
// Readiness.
// Thread: control.
#pragma once

#include <functional>
#include <memory>

#include "daemon/control/asio.h"

namespace simm::control {

class Readiness {
public:
  explicit Readiness(boost::asio::io_context& io) : descriptor_(io) {}
  ~Readiness() { stop(); }
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  // False when the descriptor can not be watched (no epoll for it, or out of memory).
  bool watch(int descriptor) {
    boost::system::error_code failed;
    descriptor_.assign(descriptor, failed);
    return !failed;
  }

  // Calls `ready` once. The owner of the Readiness must outlive the call or stop() before: what the
  // handler captures keeps it alive (a shared_ptr) or is stopped by its destructor.
  void when_readable(std::function<void()> ready) {
    when(boost::asio::posix::stream_descriptor::wait_read, std::move(ready));
  }
  void when_writable(std::function<void()> ready) {
    when(boost::asio::posix::stream_descriptor::wait_write, std::move(ready));
  }

  // Forgets the descriptor; nothing is called any more, not even what was already on its way.
  void stop() {
    alive_ = std::make_shared<bool>(true);
    if (descriptor_.is_open()) (void)descriptor_.release();
  }

private:
  void when(boost::asio::posix::stream_descriptor::wait_type what, std::function<void()> ready) {
    descriptor_.async_wait(what, [ready = std::move(ready), alive = std::weak_ptr<bool>(alive_)](
                                     const boost::system::error_code& failed) {
      if (!failed && !alive.expired()) ready();
    });
  }

  boost::asio::posix::stream_descriptor descriptor_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
