#include "libclient/session.h"

#include <poll.h>
#include <sys/socket.h>

#include "ipc/futex.h"

namespace simm::detail {

bool Session::hung_up(int timeout_ms) noexcept {
  if (!death_watch_.threads_ended() && !socket_hung_up(timeout_ms) &&
      !death_watch_.threads_ended()) {
    return false;
  }
  words_.mark_lost();
  std::uint64_t not_yet = 0;
  hung_up_ns_.compare_exchange_strong(not_yet, ipc::monotonic_now_ns(), std::memory_order_relaxed);
  return true;
}

bool Session::socket_hung_up(int timeout_ms) noexcept {
  // POLLIN is not asked for: replies wait for whoever sent the request.
  pollfd entry{control_.fd(), POLLRDHUP, 0};
  if (::poll(&entry, 1, timeout_ms) <= 0) return false;
  return (entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

void Session::wait_for_message(int timeout_ms) const noexcept {
  pollfd entry{control_.fd(), POLLIN, 0};
  (void)::poll(&entry, 1, timeout_ms);
}

bool Session::closed_by_daemon() const noexcept {
  const ipc::SessionState state = words_.state();
  return state == ipc::SessionState::closed || state == ipc::SessionState::poisoned;
}

bool Session::fenced(int timeout_ms) const noexcept {
  if (closed_by_daemon()) return true;
  if ((welcome_.extensions & ipc::kReachOutlivesSocket) == 0) return true;
  if (!process_) return false;
  pollfd entry{process_.get(), POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) > 0;
}

void Session::shut_down() noexcept {
  // Writing only: the daemon's own hang-up must stay visible.
  (void)::shutdown(control_.fd(), SHUT_WR);
}

}  // namespace simm::detail
