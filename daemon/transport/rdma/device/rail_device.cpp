#include "daemon/transport/rdma/device/rail_device.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "daemon/transport/rdma/device/gid_choice.h"
#include "simm/check.h"

namespace simm::transport {
namespace {

using std::chrono::milliseconds;

// Between two looks at what keeps a device from ending.
constexpr milliseconds kEndLook{5};

class RailRegistration final : public Registration {
public:
  RailRegistration(std::shared_ptr<const char> uses, std::unique_ptr<Registration> made)
      : uses_(std::move(uses)), made_(std::move(made)) {
    local_key = made_->local_key;
    remote_key = made_->remote_key;
    remote_address = made_->remote_address;
    is_on_demand = made_->is_on_demand;
  }

private:
  const std::shared_ptr<const char> uses_;  // ends after the registration
  const std::unique_ptr<Registration> made_;
};

RdmaDeviceInfo info_of(const RailDeviceSetup& setup) {
  RdmaDeviceInfo info;
  info.device = setup.device;
  info.port = setup.port;
  return info;
}

}  // namespace

RailDevice::RailDevice(RailDeviceSetup setup)
    : setup_(std::move(setup)),
      info_(info_of(setup_)),
      is_open_(setup_.is_open),
      lost_(setup_.lost),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

RailDevice::~RailDevice() {
  stop();
  SIMM_CHECK(ports_.empty());
}

Outcome RailDevice::start(RailDeviceEvents events) {
  SIMM_CHECK(!thread_.joinable());
  events_ = std::move(events);
  if (!stop_.valid()) return Error{Status::out_of_memory, "no descriptor for an RDMA port"};
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    return Error{Status::out_of_memory, "no thread for an RDMA port"};
  }
  ::pthread_setname_np(thread_.native_handle(), "simm-rail");
  return Done{};
}

void RailDevice::stop() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

std::string RailDevice::trouble() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return trouble_;
}

Error RailDevice::closed_error() const {
  return {Status::unreachable, info_.device + ": the port is not open: " + trouble()};
}

RailDevice::Held RailDevice::held() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (calls_ == nullptr) return {};
  return {device_.get(), calls_};
}

QueuePairAddress RailDevice::address() const noexcept {
  const Held held = this->held();
  return held.device == nullptr ? QueuePairAddress{} : held.device->address();
}

Outcome RailDevice::refresh() {
  const Held held = this->held();
  return held.device == nullptr ? closed_error() : held.device->refresh();
}

Expected<std::shared_ptr<const void>> RailDevice::hold() const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (links_ != nullptr) return std::shared_ptr<const void>(links_);
  }
  return closed_error();
}

Expected<std::unique_ptr<Registration>> RailDevice::register_memory(const MemoryRange& range,
                                                                    RemoteAccess access) {
  const Held held = this->held();
  if (held.device == nullptr) return closed_error();
  auto made = held.device->register_memory(range, access);
  if (!made) return made;
  return std::unique_ptr<Registration>(new RailRegistration(held.uses, std::move(*made)));
}

// ---- ports ----

Expected<std::unique_ptr<RdmaPort>> RailDevice::make_port(std::uint32_t completions_max) {
  auto made = RailPort::make(*this, completions_max);
  if (!made) return std::move(made).error();
  const std::lock_guard<std::mutex> lock(mutex_);
  SIMM_CHECK(!thread_.joinable());
  if (device_ != nullptr) {
    auto inner = make_inner(completions_max, *device_);
    if (!inner) return inner;
    (*made)->open(std::move(*inner));
  }
  ports_.push_back(made->get());
  return std::unique_ptr<RdmaPort>(std::move(*made));
}

// A device may have shorter completion queues than all links would need: then it takes fewer.
Expected<std::unique_ptr<RdmaPort>> RailDevice::make_inner(std::uint32_t completions_max,
                                                           RdmaDevice& device) {
  return device.make_port(std::min(completions_max, device.info().completions_max));
}

void RailDevice::forget(RailPort& port) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  ports_.erase(std::remove(ports_.begin(), ports_.end(), &port), ports_.end());
}

// ---- its thread ----

void RailDevice::work() {
  while (true) {
    switch (state()) {
      case RailState::waiting:
        if (!sleep(-1, setup_.look)) return;
        if (open()) events_.changed();
        break;
      case RailState::open:
      case RailState::down:
        if (!sleep(device_->event_descriptor(), setup_.look)) return;
        look();
        break;
      case RailState::ending:
        if (!sleep(-1, kEndLook)) return;
        if (try_to_end()) events_.changed();
        break;
    }
  }
}

bool RailDevice::sleep(int descriptor, milliseconds most) noexcept {
  std::array<pollfd, 2> polled{{{stop_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}}};
  (void)::poll(polled.data(), polled.size(), static_cast<int>(most.count()));
  return (polled[0].revents & POLLIN) == 0;
}

void RailDevice::set_state(RailState state, const std::string& trouble) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool is_news = trouble_ != trouble || this->state() != state;
  trouble_ = trouble;
  state_.store(state, std::memory_order_release);
  lock.unlock();
  is_open_.set(state == RailState::open ? 1 : 0);
  if (!is_news) return;
  if (state == RailState::open) return log_address("port");
  setup_.log.warning("rdma", "a port is not used now",
                     {{"device", info_.device}, {"port", info_.port}, {"why", trouble}});
}

void RailDevice::log_address(const char* what) const {
  const QueuePairAddress now = address();
  setup_.log.info("rdma", what,
                  {{"device", info_.device},
                   {"port", info_.port},
                   {"gid", gid_text(now.gid)},
                   {"mtu", now.mtu_bytes}});
  const std::string caveat = this->caveat();
  if (caveat.empty()) return;
  setup_.log.warning("rdma", caveat, {{"device", info_.device}, {"port", info_.port}});
}

std::string RailDevice::caveat() const {
  const Held held = this->held();
  return held.device == nullptr ? std::string() : held.device->caveat();
}

Outcome RailDevice::open() {
  auto opened = setup_.open();
  if (!opened) {
    set_state(RailState::waiting, opened.error().context);
    return std::move(opened).error();
  }
  std::vector<RailPort*> ports;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ports = ports_;
  }
  // All of them or none, and without the lock: what hangs here keeps nobody waiting.
  std::vector<std::unique_ptr<RdmaPort>> made;
  for (const RailPort* const port : ports) {
    auto one = make_inner(port->completions_max(), **opened);
    if (!one) {
      set_state(RailState::waiting, one.error().context);
      return std::move(one).error();
    }
    made.push_back(std::move(*one));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::size_t i = 0; i < ports.size(); ++i) ports[i]->open(std::move(made[i]));
    device_ = std::move(*opened);
    calls_ = std::make_shared<const char>();
    links_ = std::make_shared<const char>();
  }
  set_state(RailState::open, {});
  if (events_.open_keys) events_.open_keys();
  return Done{};
}

void RailDevice::look() {
  if (device_->take_event() == DeviceEvent::gone) {
    return begin_to_end("the device was reset, or taken out");
  }
  look_at_link();
}

void RailDevice::look_at_link() {
  const QueuePairAddress before = device_->address();
  const RailState was = state();
  std::string why;
  if (Outcome read = device_->refresh(); !read) why = read.error().context;
  set_state(why.empty() ? RailState::open : RailState::down, why);
  if (state() == was && device_->address() != before) log_address("a port has another address");
  if (state() != was) events_.changed();
}

void RailDevice::begin_to_end(const std::string& why) {
  lost_.add();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    links_left_ = std::exchange(links_, nullptr);
    for (RailPort* const port : ports_) port->mute();
  }
  are_keys_closed_ = false;
  set_state(RailState::ending, why);
  events_.changed();
}

// In this order: data agents look up keys for links only, and ports belong to queue pairs.
bool RailDevice::try_to_end() {
  if (!links_left_.expired()) return false;
  if (!std::exchange(are_keys_closed_, true)) {
    if (events_.close_keys) events_.close_keys();
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_left_ = std::exchange(calls_, nullptr);
    for (RailPort* const port : ports_) port->close();
  }
  if (!calls_left_.expired()) return false;
  std::vector<std::unique_ptr<RdmaPort>> gone;
  std::unique_ptr<RdmaDevice> device;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool are_closed = std::all_of(ports_.begin(), ports_.end(),
                                        [](const RailPort* port) { return port->is_closed(); });
    if (!are_closed) return false;
    for (RailPort* const port : ports_) gone.push_back(port->take());
    device = std::move(device_);
  }
  gone.clear();
  device.reset();
  set_state(RailState::waiting, "its device is gone, and is not back");
  return true;
}

}  // namespace simm::transport
