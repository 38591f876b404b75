// ControlNetwork: the control connections between the daemons of a simulated cluster and their
// manager. Ordered, delayed, and cut in one direction or both without a notice: what is sent then
// waits until the cut heals or the connection has ended. Who they are talking to, both ends know,
// and which protocol: the hello has its own tests.
// Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "daemon/cluster/membership.h"
#include "tests/sim/conditions.h"
#include "tests/sim/dice.h"
#include "tests/sim/map_book.h"

namespace simm::sim {

class SimManager;
class SimMember;

struct ControlLink {
  cluster::ConnectionId id = 0;
  Serial serial = 0;              // of the daemon
  std::uint16_t version = 0;      // of the protocol, that the hello has agreed on
  SimMember* member = nullptr;    // null: its end is closed
  SimManager* manager = nullptr;  // null: its end is closed
  base::TimeNs next_up_ns = 0;    // first in, first out
  base::TimeNs next_down_ns = 0;
  std::vector<std::function<void()>> held;
};

using ControlLinkPtr = std::shared_ptr<ControlLink>;

class ControlNetwork {
public:
  ControlNetwork(EventLoop& loop, Dice dice, const Conditions& conditions)
      : loop_(loop), dice_(dice), conditions_(conditions) {}

  [[nodiscard]] EventLoop& loop() noexcept { return loop_; }

  // The newest protocol version that a daemon speaks.
  std::function<std::uint16_t(Serial)> version_of = [](Serial) {
    return cluster::kHelloVersionMax;
  };

  // Whether the difference to a map that a daemon is sent now never comes. A whole map always
  // comes, or the connection ends.
  std::function<bool()> loses_delta = [] { return false; };

  // A daemon has a connection to a manager, and has said its Join if it does not sleep.
  std::function<void(Serial, const SimManager&)> on_connected = [](Serial, const SimManager&) {};

  // How many addresses of managers daemons know.
  void set_places(std::size_t places) { managers_.resize(places); }
  // Who listens at one; null: nobody.
  void listen(std::size_t place, SimManager* manager) { managers_[place] = manager; }
  // After a while the member is told: connected, or not.
  void dial(SimMember& member);

  void send_up(const ControlLinkPtr& link, std::span<const std::byte> message);
  void send_down(const ControlLinkPtr& link, std::span<const std::byte> message);
  // One end closes or dies; the other one is told behind what was sent.
  void close_member_end(const ControlLinkPtr& link);
  void close_manager_end(const ControlLinkPtr& link);

  // Its connection breaks, if it has one, and the next manager that it asks is that one.
  void send_to(Serial serial, std::size_t place);
  // Cuts or heals one direction, or both, between a daemon and whatever manager there is.
  void cut(Serial serial, bool up, bool down);
  void heal_all();

private:
  struct Cut {
    bool up = false;
    bool down = false;
  };

  void go_up(const ControlLinkPtr& link, std::function<void()> deliver);
  void go_down(const ControlLinkPtr& link, std::function<void()> deliver);
  void arrive(const ControlLinkPtr& link, bool Cut::*direction, std::function<void()> deliver);
  base::TimeNs delay_ns();
  std::size_t next_place(Serial serial);

  EventLoop& loop_;
  Dice dice_;
  const Conditions& conditions_;
  std::vector<SimManager*> managers_{nullptr};  // by place
  std::map<Serial, Cut> cuts_;
  std::map<Serial, std::size_t> dials_;
  std::vector<std::weak_ptr<ControlLink>> links_;
  cluster::ConnectionId ids_ = 0;
};

}  // namespace simm::sim
