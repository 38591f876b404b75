#include "daemon/transport/tcp/epoll_io.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

namespace {

bool would_block(ssize_t result) noexcept {
  return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::int32_t outcome(ssize_t result) noexcept {
  return result < 0 ? -errno : static_cast<std::int32_t>(result);
}

}  // namespace

Expected<std::unique_ptr<SocketIo>> EpollIo::make(base::Waiter* waiter) {
  ipc::UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("epoll_create1", errno);
  std::unique_ptr<EpollIo> made(new EpollIo(std::move(epoll), waiter));
  if (waiter != nullptr) {
    const Outcome watched = waiter->watch(made->epoll_.get(), *made);
    if (!watched) return watched.error();
  }
  return std::unique_ptr<SocketIo>(std::move(made));
}

EpollIo::~EpollIo() {
  if (waiter_ != nullptr) waiter_->unwatch(epoll_.get());
}

bool EpollIo::open(IoSocket& socket) noexcept {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &socket;
  socket.readable = socket.writable = true;  // until a try says otherwise
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.descriptor, &event) == 0;
}

void EpollIo::close(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.busy());
  socket.base::ListLink<IoTryTag>::unlink();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.descriptor, nullptr);
}

void EpollIo::want(IoSocket& socket) noexcept {
  if (!socket.base::ListLink<IoTryTag>::linked()) try_.push_back(socket);
}

void EpollIo::receive(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.receiving && !socket.received);
  socket.receiving = true;
  if (socket.readable) want(socket);
}

void EpollIo::send(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.sending && !socket.sent);
  socket.sending = true;
  if (socket.writable) want(socket);
}

void EpollIo::cancel(IoSocket& socket) noexcept {
  if (!socket.busy()) return;
  if (std::exchange(socket.receiving, false)) {
    socket.received = true;
    socket.receive_result = -ECANCELED;
  }
  if (std::exchange(socket.sending, false)) {
    socket.sent = true;
    socket.send_result = -ECANCELED;
  }
  list_ready(socket);
}

bool EpollIo::try_receive(IoSocket& socket) noexcept {
  if (!socket.receiving || !socket.readable) return false;
  msghdr message{};
  message.msg_iov = socket.receive_parts.data();
  message.msg_iovlen = socket.receive_count;
  const ssize_t result = ::recvmsg(socket.descriptor, &message, MSG_DONTWAIT);
  if (result < 0 && errno == EINTR) return false;
  if (would_block(result)) {
    socket.readable = false;
    return false;
  }
  socket.receiving = false;
  socket.received = true;
  socket.receive_result = outcome(result);
  return true;
}

bool EpollIo::try_send(IoSocket& socket) noexcept {
  if (!socket.sending || !socket.writable) return false;
  msghdr message{};
  message.msg_iov = socket.send_parts.data();
  message.msg_iovlen = socket.send_count;
  const ssize_t result = ::sendmsg(socket.descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (result < 0 && errno == EINTR) return false;
  if (would_block(result)) {
    socket.writable = false;
    return false;
  }
  socket.sending = false;
  socket.sent = true;
  socket.send_result = outcome(result);
  return true;
}

int EpollIo::poll() noexcept {
  constexpr int kEventsMax = 64;
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    // SAFETY: only open() adds descriptors, with the IoSocket's address; close() removes them.
    IoSocket& socket = *static_cast<IoSocket*>(event.data.ptr);
    const bool is_broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    if (is_broken || (event.events & (EPOLLIN | EPOLLRDHUP)) != 0) socket.readable = true;
    if (is_broken || (event.events & EPOLLOUT) != 0) socket.writable = true;
    if (socket.busy()) want(socket);
  }
  int ended = 0;
  base::IntrusiveList<IoSocket, IoTryTag> round;
  round.splice_back(try_);
  while (IoSocket* socket = round.pop_front()) {
    const bool received = try_receive(*socket);
    const bool sent = try_send(*socket);
    if (received || sent) list_ready(*socket);
    ended += (received ? 1 : 0) + (sent ? 1 : 0);
    const bool goes_on =
        (socket->receiving && socket->readable) || (socket->sending && socket->writable);
    if (goes_on) want(*socket);  // interrupted by a signal
  }
  return ended;
}

}  // namespace simm::transport
