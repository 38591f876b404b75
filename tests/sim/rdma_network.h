// RdmaNetwork: the simulated devices of a cluster in virtual time: when a moment of their fabric
// passes, which links there are, and what goes wrong with them. The devices of a process that was
// killed work on for a while, as until a kernel has taken a dead process to pieces.
// Owned by the Network. Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/transport/transport.h"
#include "tests/sim/conditions.h"
#include "tests/sim/dice.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"

namespace simm::sim {

class RdmaNodePart;

class RdmaNetwork {
public:
  RdmaNetwork(EventLoop& loop, Dice dice, const Conditions& conditions);
  ~RdmaNetwork();
  RdmaNetwork(const RdmaNetwork&) = delete;
  RdmaNetwork& operator=(const RdmaNetwork&) = delete;

  [[nodiscard]] EventLoop& loop() noexcept { return loop_; }
  [[nodiscard]] Dice& dice() noexcept { return dice_; }
  [[nodiscard]] base::TimeNs draw_notice_ns();
  // A device may have something to do.
  void kick();

  // Of all devices; the longest packet is four times the MTU.
  SimDeviceConfig device_config;
  // A device of a node, or of a server; until it is forgotten.
  SimRdmaDevice* add_device(bool is_node, std::uint32_t number,
                            std::unique_ptr<SimRdmaDevice>& owner);
  void forget(const SimRdmaDevice* device);

  // Links as their servers have them: until the server's end is over something may come over them.
  std::uint64_t begin_link(std::uint32_t node, transport::Route to);
  void end_link(std::uint64_t link);
  [[nodiscard]] std::set<std::uint64_t> links_of(std::uint32_t node, transport::Route to) const;
  std::function<void(std::uint64_t)> on_link_end = [](std::uint64_t) {};

  // A dead process: after a while its queue pairs go, and `gone` is called. What they have sent by
  // then may still arrive.
  void bury(std::unique_ptr<RdmaNodePart> dead, base::TimeNs after_ns, std::function<void()> gone);

  // Faults.
  void break_some();
  void pull_some_cable();
  // One of that node: what its servers answer just now is lost.
  void pull_cable_of(std::uint32_t node);
  // All queue pairs of a node fail.
  void fail_all_of(std::uint32_t node);
  void delay_some_fences();
  // By all devices, since the beginning.
  [[nodiscard]] std::uint64_t read_bytes() const { return fabric_.counters().read_bytes; }
  // Those of a server, for so long.
  void delay_fences_of_server(std::uint32_t server, base::TimeNs for_ns);
  // What one device sends to another one waits for a while, though its sender may end meanwhile.
  void hold_some_way();
  // The same of all that a dead process has sent.
  void hold_back(const SimRdmaDevice& from);
  void cut(std::uint32_t node, std::uint32_t peer, bool to_server, bool to_node);
  void heal_all();

private:
  struct Device {
    SimRdmaDevice* device = nullptr;
    bool is_node = false;
    std::uint32_t number = 0;
    base::TimeNs slow_again_ns = 0;  // its fences, not before
  };
  struct Place {
    std::uint32_t node = 0;
    transport::Route to;
  };
  struct Cut {
    bool to_server = false;
    bool to_node = false;
  };
  void step();
  void hold(const Device& node, const Device& server, Cut cut);
  Device* some_device();
  void pull_cable(SimRdmaDevice& device);
  void hold_fences(SimRdmaDevice& slow, base::TimeNs for_ns);
  void hold_for_a_while(const SimRdmaDevice& from, const SimRdmaDevice& to);

  EventLoop& loop_;
  Dice dice_;
  const Conditions& conditions_;
  SimRdmaFabric fabric_;
  bool is_scheduled_ = false;
  std::uint32_t fruitless_ = 0;  // steps in a row
  std::vector<Device> devices_;
  std::map<std::uint64_t, Place> links_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Cut> cuts_;  // node, peer
  std::map<std::uint64_t, std::unique_ptr<RdmaNodePart>> dead_;
  std::uint64_t last_link_ = 0;
  std::uint64_t last_dead_ = 0;
};

}  // namespace simm::sim
