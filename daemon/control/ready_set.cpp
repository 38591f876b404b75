#include "daemon/control/ready_set.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

namespace simm::control {

ReadySet::ReadySet(boost::asio::io_context& io, std::function<void()> after_round)
    : after_round_(std::move(after_round)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      ready_(io),
      pause_(io) {
  wait();
}

bool ReadySet::add(int socket, SocketReader& reader) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &reader;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) != 0) return false;
  ++size_;
  return true;
}

void ReadySet::remove(int socket, const SocketReader& reader) {
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr) == 0) --size_;
  for (Ready& ready : now_) {
    if (ready.reader == &reader) ready.reader = nullptr;
  }
  std::erase_if(again_, [&](const Ready& ready) { return ready.reader == &reader; });
}

void ReadySet::wait() {
  if (!is_watched_) is_watched_ = epoll_.valid() && ready_.watch(epoll_.get());
  ready_.when_readable([this] { round(); });
}

// What is watched wakes the thread up, also while nobody waits for it. To begin to watch it costs
// the kernel a look at all of its sockets.
void ReadySet::pause() {
  if (std::exchange(is_watched_, false)) ready_.stop();
  pause_.after(kRoundNs, [this] { round(); });
}

void ReadySet::round() {
  std::array<epoll_event, kRoundEvents> events{};
  const int found = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  now_ = std::exchange(again_, {});
  for (int i = 0; i < found; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const bool has_ended = (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    now_.push_back({static_cast<SocketReader*>(event.data.ptr), has_ended});
  }
  for (std::size_t i = 0; i < now_.size(); ++i) read(i);
  idle_rounds_ = now_.empty() ? idle_rounds_ + 1 : 0;
  now_.clear();
  if (idle_rounds_ == 0) after_round_();
  if (!again_.empty() || found == static_cast<int>(events.size())) {
    return pause_.after(0, [this] { round(); });
  }
  if (size_ < kMany || idle_rounds_ >= kIdleRounds) return wait();
  pause();
}

// The end of a stream is an event that may have come with its last bytes.
void ReadySet::read(std::size_t index) {
  SocketReader* const reader = now_[index].reader;
  if (reader == nullptr) return;
  const bool has_more = reader->on_readable();
  if (now_[index].reader == nullptr) return;
  if (has_more || now_[index].has_ended) again_.push_back(now_[index]);
}

}  // namespace simm::control
