// RdmaEnds: both ends of the RDMA transport in one thread, on simulated devices, with a clock that
// stands still, and turns that the test gives. The asking end has two rails, a device each, so that
// packets of some links can be held up while others run; the serving end has one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/rdma/rdma_requester.h"
#include "daemon/transport/rdma/rdma_responder.h"
#include "daemon/transport/region_mover.h"
#include "simm/check.h"
#include "tests/sim/rdma/sim_rdma_device.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"
#include "tests/support/rdma_keys.h"

namespace support {

inline simm::transport::RdmaRequesterConfig small_rdma_requester() {
  simm::transport::RdmaRequesterConfig config;
  config.links_max = 4;
  config.credits = 8;
  return config;
}
inline simm::transport::RdmaResponderConfig small_rdma_responder() {
  simm::transport::RdmaResponderConfig config;
  config.links_max = 4;
  config.credits = 8;
  return config;
}

struct RdmaEndsConfig {
  std::uint64_t seed = 1;
  simm::transport::Mover* mover = nullptr;
  simm::transport::RdmaRequesterConfig asking = small_rdma_requester();
  simm::transport::RdmaResponderConfig serving = small_rdma_responder();
  int steps_per_turn = 8;
  simm::sim::SimDeviceConfig asking_device;
  simm::sim::SimDeviceConfig serving_device;
  // What stands between an end and its simulated port, if anything.
  std::function<std::unique_ptr<simm::transport::RdmaPort>(
      std::unique_ptr<simm::transport::RdmaPort>)>
      wrap = [](auto port) { return port; };
};

class RdmaEnds {
public:
  using Losses = std::map<std::uint64_t, simm::transport::LinkLoss>;

  explicit RdmaEnds(const RdmaEndsConfig& config = {})
      : steps_per_turn(config.steps_per_turn),
        fabric(config.seed),
        asking_devices{fabric.make_device(config.asking_device),
                       fabric.make_device(config.asking_device)},
        serving_device(fabric.make_device(config.serving_device)),
        asking_ports{config.wrap(asking_devices[0]->make_port(kCompletions).value()),
                     config.wrap(asking_devices[1]->make_port(kCompletions).value())},
        serving_port(config.wrap(serving_device->make_port(kCompletions).value())),
        keys({asking_devices[0].get(), asking_devices[1].get()}, *serving_device),
        own_roster(config.asking.links_max),
        requester_rosters(config.serving.links_max),
        requester(config.asking, clock, {asking_ports[0].get(), asking_ports[1].get()}, keys,
                  config.mover == nullptr ? own_mover : *config.mover, own_roster, requester_mail,
                  {counters, "asking"}),
        responder(config.serving, clock, {serving_port.get()}, keys, requester_rosters,
                  responder_mail, {counters, "serving"}) {
    simm::memory::FaultGuard::install();
  }

  // A link with a name of its own, over which the other end was heard. Both ends have it after
  // their next turns.
  std::uint64_t dial(simm::transport::Route route, std::uint16_t rail = 0,
                     simm::transport::LinkOwner owner = {}, bool was_heard = true) {
    auto asking = simm::transport::make_rdma_link(*asking_devices[rail], *asking_ports[rail], true);
    auto serving = simm::transport::make_rdma_link(*serving_device, *serving_port, false);
    const std::uint64_t name = ++links_dialled_;
    join(**asking, **serving, name);
    asking.value()->peer = route.peer;
    asking.value()->rail = rail;
    asking.value()->was_heard = was_heard;
    asking.value()->takes_long_pings = true;
    asking.value()->takes_traces = takes_traces;
    serving.value()->peer = simm::base::PeerId{77};
    serving.value()->owner = owner;
    asking.value()->shard = serving.value()->shard = route.shard;
    asking_numbers[name] = asking.value()->queue_pair->address().number;
    serving_numbers[name] = serving.value()->queue_pair->address().number;
    SIMM_CHECK(requester_mail.control_add(*asking));
    SIMM_CHECK(responder_mail.control_add(*serving));
    return name;
  }

  int network_turn() {
    int done = 0;
    for (int i = 0; i < steps_per_turn; ++i) done += fabric.step();
    return done;
  }
  void turn() {
    requester.do_work();
    network_turn();
    responder.do_work();
    network_turn();
  }
  // Until `reached`, at most `turns` turns; whether it was.
  template <typename Reached>
  bool turn_until(Reached&& reached, int turns = 5000) {
    for (int i = 0; i < turns && !reached(); ++i) turn();
    return reached();
  }
  // What an end has given back since the last call. No link twice.
  static Losses take_lost(simm::transport::RdmaLinkMailbox& mail) {
    Losses losses;
    while (const auto link = mail.control_take_ended()) {
      SIMM_CHECK(losses.emplace(link->link, link->loss).second);
    }
    return losses;
  }
  Losses lost_by_requester() { return take_lost(requester_mail); }
  Losses lost_by_server() { return take_lost(responder_mail); }

  // What the requester's rail has sent is kept back, or the other way round.
  void hold_to_server(std::size_t rail) { fabric.hold(*asking_devices[rail], *serving_device); }
  void release_to_server(std::size_t rail) {
    fabric.release(*asking_devices[rail], *serving_device);
  }
  void hold_to_requester(std::size_t rail) { fabric.hold(*serving_device, *asking_devices[rail]); }
  void release_to_requester(std::size_t rail) {
    fabric.release(*serving_device, *asking_devices[rail]);
  }
  void swallow_to_server(std::size_t rail, std::uint32_t bytes) {
    fabric.swallow(*asking_devices[rail], *serving_device, bytes);
  }
  void swallow_to_requester(std::size_t rail, std::uint32_t bytes) {
    fabric.swallow(*serving_device, *asking_devices[rail], bytes);
  }

  int steps_per_turn;
  bool takes_traces = false;  // of links that are dialled from now on, as the server's hello says
  simm::base::ManualClock clock;
  simm::base::CounterSet counters;
  simm::transport::RegionMover own_mover;
  simm::sim::SimRdmaFabric fabric;
  const std::array<std::unique_ptr<simm::sim::SimRdmaDevice>, 2> asking_devices;
  const std::unique_ptr<simm::sim::SimRdmaDevice> serving_device;
  const std::array<std::unique_ptr<simm::transport::RdmaPort>, 2> asking_ports;
  const std::unique_ptr<simm::transport::RdmaPort> serving_port;
  RdmaTestKeys keys;
  simm::transport::OwnRoster own_roster;
  simm::transport::RequesterRosters requester_rosters;
  simm::transport::RdmaLinkMailbox requester_mail{16};
  simm::transport::RdmaLinkMailbox responder_mail{16};
  simm::transport::RdmaRequester requester;
  simm::transport::RdmaResponder responder;
  // The queue pairs of a link, by its name.
  std::map<std::uint64_t, std::uint32_t> asking_numbers;
  std::map<std::uint64_t, std::uint32_t> serving_numbers;

private:
  static constexpr std::uint32_t kCompletions = 8192;

  static void join(simm::transport::RdmaLink& asking, simm::transport::RdmaLink& serving,
                   std::uint64_t name) {
    SIMM_CHECK(serving.queue_pair->connect(asking.queue_pair->address()).has_value());
    SIMM_CHECK(asking.queue_pair->connect(serving.queue_pair->address()).has_value());
    asking.link = serving.link = name;
  }

  std::uint64_t links_dialled_ = 0;
};

}  // namespace support
