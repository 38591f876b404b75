#include "daemon/transport/rdma/device/rail_port.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "daemon/transport/rdma/device/rail_device.h"
#include "simm/check.h"

namespace simm::transport {
namespace {

bool add_to(int epoll, int descriptor) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

Expected<std::unique_ptr<RailPort>> RailPort::make(RailDevice& device,
                                                   std::uint32_t completions_max) {
  std::unique_ptr<RailPort> made(new RailPort(device, completions_max));
  const bool is_usable = made->events_.valid() && made->changed_.valid() &&
                         add_to(made->events_.get(), made->changed_.get());
  if (is_usable) return made;
  return Error{Status::out_of_memory, device.info().device +
                                          ": no descriptor for its events: the daemon has too many "
                                          "open files"};
}

RailPort::RailPort(RailDevice& device, std::uint32_t completions_max)
    : device_(device),
      completions_max_(completions_max),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

RailPort::~RailPort() {
  device_.forget(*this);
}

void RailPort::open(std::unique_ptr<RdmaPort> port) {
  const std::lock_guard<std::mutex> lock(mutex_);
  SIMM_CHECK(port_ == nullptr && port != nullptr);
  port_ = std::move(port);
  // A port without a descriptor is a simulated one: those wake nobody.
  const int descriptor = port_->event_descriptor();
  SIMM_CHECK(descriptor < 0 || add_to(events_.get(), descriptor));
  offer(port_.get());
}

void RailPort::mute() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (port_ == nullptr || port_->event_descriptor() < 0) return;
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, port_->event_descriptor(), nullptr);
}

void RailPort::close() noexcept {
  offer(nullptr);
}

std::unique_ptr<RdmaPort> RailPort::take() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  SIMM_CHECK(offered_.load(std::memory_order_seq_cst) == nullptr && is_closed());
  return std::move(port_);
}

Expected<std::unique_ptr<QueuePair>> RailPort::make_queue_pair(const QueuePairConfig& config) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (port_ == nullptr) return device_.closed_error();
  return port_->make_queue_pair(config);
}

void RailPort::offer(RdmaPort* port) noexcept {
  offered_.store(port, std::memory_order_seq_cst);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(changed_.get(), &one, sizeof one);
}

// What is in use is said before the offer is looked at once more. So either the device sees the
// use, or the agent sees that the offer is gone.
void RailPort::change() noexcept {
  std::uint64_t changes = 0;
  [[maybe_unused]] const ssize_t got = ::read(changed_.get(), &changes, sizeof changes);
  do {
    used_ = offered_.load(std::memory_order_seq_cst);
    in_use_.store(used_, std::memory_order_seq_cst);
  } while (offered_.load(std::memory_order_seq_cst) != used_);
}

}  // namespace simm::transport
