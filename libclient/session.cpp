#include "libclient/session.h"

#include <poll.h>
#include <sys/socket.h>

namespace simm::detail {

bool Session::hung_up(int timeout_ms) noexcept {
  // POLLIN is not asked for: replies wait for whoever sent the request.
  pollfd entry{control_.fd(), POLLRDHUP, 0};
  if (::poll(&entry, 1, timeout_ms) <= 0) return false;
  if ((entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0) return false;
  words_.mark_lost();
  return true;
}

void Session::shut_down() noexcept {
  // Writing only: the daemon's own hang-up must stay visible.
  (void)::shutdown(control_.fd(), SHUT_WR);
}

}  // namespace simm::detail
