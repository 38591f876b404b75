// The TCP transport in the conformance suite, on io_uring, with sends without copies, and on epoll:
// real connections over loopback, with a relay between them that is the network. A lost link is
// dialled anew.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <span>
#include <utility>

#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/tcp/socket_io.h"
#include "daemon/transport/tcp/tcp_requester.h"
#include "daemon/transport/tcp/tcp_responder.h"
#include "simm/check.h"
#include "tests/conformance/breakable_mover.h"
#include "tests/conformance/transport_world.h"
#include "tests/support/link_keys.h"
#include "tests/support/tcp_relay.h"

namespace tcp_transport_world {

using namespace simm::transport;

// A real one, whose receives into a hole in the region, and sends from there, fail as they do where
// memory vanished.
class BreakableIo final : public SocketIo {
public:
  explicit BreakableIo(SocketIoChoice choice) : io_(make_socket_io(choice, nullptr).value()) {}
  void break_at(const std::byte* from, std::uint64_t length) {
    from_ = from;
    length_ = length;
  }
  SocketIoKind kind() const noexcept override { return io_->kind(); }
  UncopiedSends uncopied_sends() const noexcept override { return io_->uncopied_sends(); }
  bool open(IoSocket& socket) noexcept override { return io_->open(socket); }
  void close(IoSocket& socket) noexcept override { io_->close(socket); }
  void receive(IoSocket& socket) noexcept override {
    if (!is_broken(socket.receive_parts[0])) return io_->receive(socket);
    socket.received = true;
    socket.receive_result = -EFAULT;
    list_ready(socket);
  }
  void send(IoSocket& socket) noexcept override {
    const auto parts = std::span(socket.send_parts).first(socket.send_count);
    if (std::ranges::none_of(parts, [&](const iovec& part) { return is_broken(part); })) {
      return io_->send(socket);
    }
    socket.sent = true;
    socket.send_result = -EFAULT;
    list_ready(socket);
  }
  void cancel(IoSocket& socket) noexcept override { io_->cancel(socket); }
  int poll() noexcept override { return io_->poll(); }
  bool prepare_sleep() noexcept override { return io_->prepare_sleep(); }

private:
  [[nodiscard]] bool is_broken(const iovec& part) const noexcept {
    const auto* at = static_cast<const std::byte*>(part.iov_base);
    return at < from_ + length_ && from_ < at + part.iov_len;
  }

  std::unique_ptr<SocketIo> io_;
  const std::byte* from_ = nullptr;
  std::uint64_t length_ = 0;
};

class TcpWorld final : public conformance::TransportWorld {
public:
  explicit TcpWorld(SocketIoChoice choice) : requester_io_(choice), responder_io_(choice) {
    simm::memory::FaultGuard::install();
    void* mapped =
        ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region_.base = static_cast<std::byte*>(mapped);
    region_.length = kRegionBytes;
    dial();
  }
  ~TcpWorld() override { ::munmap(region_.base, kRegionBytes); }

  Requester& requester() override { return requester_; }
  Responder& responder() override { return responder_; }
  Route route() override { return kRoute; }
  Route unreachable_route() override { return {simm::base::PeerId{9}, 0}; }
  simm::memory::Region& region() override { return region_; }
  // Answers reach the requester in its own turns only.
  int requester_turn() override {
    int moved = 0;
    for (auto& [link, relay] : relays_) moved += relay->pump_to_left();
    return moved + requester_.do_work();
  }
  int responder_turn() override { return responder_.do_work(); }
  // What the requester gave to its transport leaves, too: to it, that was sent.
  int network_turn() override {
    int moved = requester_.do_work();
    for (auto& [link, relay] : relays_) {
      moved += relay->take_from_right();
      moved += relay->pump_to_right();
    }
    LinkLost lost;
    while (responder_mail_.control_take_lost(lost)) relays_.erase(lost.link);
    while (requester_mail_.control_take_lost(lost)) {
      const auto found = relays_.find(lost.link);
      if (found != relays_.end()) found->second->cut();
      dial();
    }
    return moved;
  }
  const simm::base::Clock& clock() override { return clock_; }
  std::uint32_t credits() override { return kCredits; }
  bool path_is_shared() override { return true; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    mover_.break_at(offset, length);
    requester_io_.break_at(region_.base + offset, length);
  }

private:
  static constexpr std::uint32_t kCredits = 12;
  static constexpr Route kRoute{simm::base::PeerId{1}, 2};

  static TcpRequesterConfig requester_config() {
    TcpRequesterConfig config;
    config.links_max = 4;
    config.credits = kCredits;
    return config;
  }
  static TcpResponderConfig responder_config() {
    TcpResponderConfig config;
    config.links_max = 4;
    config.credits = kCredits;
    return config;
  }

  void dial() {
    const std::uint64_t name = next_link_++;
    auto& relay = relays_[name];
    relay = std::make_unique<support::TcpRelay>();
    TcpLink asking{relay->take_left(), kRoute.peer, kRoute.shard, name};
    TcpLink serving{relay->take_right(), simm::base::PeerId{7}, kRoute.shard, name};
    asking.keys = support::requester_keys(name);
    serving.keys = support::server_keys(name);
    SIMM_CHECK(requester_mail_.control_add(asking));
    SIMM_CHECK(responder_mail_.control_add(serving));
  }

  simm::memory::Region region_;
  simm::base::ManualClock clock_;
  conformance::BreakableMover mover_;
  BreakableIo requester_io_;
  BreakableIo responder_io_;
  OwnRoster own_roster_{4};
  RequesterRosters requester_rosters_{4};
  TcpLinkMailbox requester_mail_{16};
  TcpLinkMailbox responder_mail_{16};
  TcpRequester requester_{requester_config(), clock_,         requester_io_, mover_,
                          own_roster_,        requester_mail_};
  TcpResponder responder_{responder_config(), clock_, responder_io_, requester_rosters_,
                          responder_mail_};
  std::map<std::uint64_t, std::unique_ptr<support::TcpRelay>> relays_;
  std::uint64_t next_link_ = 1;
};

bool has_uring() {
  return make_socket_io(SocketIoChoice::uring, nullptr).has_value();
}

const conformance::TransportRegistration kEpoll("tcp_epoll", [] {
  return std::make_unique<TcpWorld>(SocketIoChoice::epoll);
});
// Where the kernel refuses io_uring there is nothing to test: the daemon uses epoll there.
const bool kHasUring = [] {
  if (!has_uring()) return false;
  const conformance::TransportRegistration uring(
      "tcp_uring", [] { return std::make_unique<TcpWorld>(SocketIoChoice::uring); });
  const conformance::TransportRegistration uncopied("tcp_uring_uncopied", [] {
    return std::make_unique<TcpWorld>(SocketIoChoice::uring_uncopied);
  });
  return true;
}();

}  // namespace tcp_transport_world
