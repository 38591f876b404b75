// The TCP transport over simulated sockets in the conformance suite: with kernels that move bytes
// in a process's own turns, and with those that do so at any time and end a cancel late. A lost
// link is dialled anew.
#include <sys/mman.h>

#include <map>

#include "daemon/transport/tcp/tcp_requester.h"
#include "daemon/transport/tcp/tcp_responder.h"
#include "simm/check.h"
#include "tests/conformance/breakable_mover.h"
#include "tests/conformance/transport_world.h"
#include "tests/sim/sim_socket_io.h"
#include "tests/support/link_keys.h"

namespace sim_tcp_transport_world {

using namespace simm::transport;

class SimTcpWorld final : public conformance::TransportWorld {
public:
  explicit SimTcpWorld(bool is_asynchronous)
      : requester_io_(network_, is_asynchronous), responder_io_(network_, is_asynchronous) {
    void* mapped =
        ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region_.base = static_cast<std::byte*>(mapped);
    region_.length = kRegionBytes;
    region_.can_fault = false;
    // The suite counts turns.
    conditions_.fence_high_ns = 100 * simm::sim::kUs;
    network_.send_buffer_bytes = 16 * 1024 * 1024;  // a whole answer is on its way at one moment
    network_.receive_buffer_bytes = 64 * 1024;
    requester_io_.is_reachable = [this](std::span<const std::byte> bytes) {
      return bytes.data() >= hole_.data() + hole_.size() ||
             hole_.data() >= bytes.data() + bytes.size();
    };
    dial();
  }
  ~SimTcpWorld() override {
    requester_io_.die(false);
    responder_io_.die(false);
    ::munmap(region_.base, kRegionBytes);
  }

  Requester& requester() override { return requester_; }
  Responder& responder() override { return responder_; }
  Route route() override { return kRoute; }
  Route unreachable_route() override { return {simm::base::PeerId{9}, 0}; }
  simm::memory::Region& region() override { return region_; }
  // Answers reach the requester in its own turns only.
  int requester_turn() override {
    network_.cut(kNode, kServer, false, false);
    const int work = requester_.do_work();
    network_.cut(kNode, kServer, false, true);
    return work;
  }
  int responder_turn() override { return responder_.do_work(); }
  // What the requester gave to its transport leaves, too: to it, that was sent.
  int network_turn() override {
    const std::uint64_t before = loop_.events();
    const int work = requester_.do_work();
    loop_.run_until(loop_.now_ns() + 20 * simm::sim::kUs);
    LinkLost lost;
    while (responder_mail_.control_take_lost(lost)) {
    }
    while (requester_mail_.control_take_lost(lost)) dial();
    return work + static_cast<int>(loop_.events() - before);
  }
  const simm::base::Clock& clock() override { return clock_; }
  std::uint32_t credits() override { return kCredits; }
  bool path_is_shared() override { return true; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    mover_.break_at(offset, length);
    hole_ = {region_.base + offset, length};
  }

private:
  static constexpr std::uint32_t kCredits = 12;
  static constexpr std::uint32_t kNode = 0;
  static constexpr std::uint32_t kServer = 1;
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
    const auto connection = network_.connect(kNode, requester_io_, kServer, responder_io_);
    const auto descriptor = [&connection](std::size_t end) {
      return simm::ipc::UniqueFd(connection->ends[end].descriptor);
    };
    const std::uint64_t name = connection->id;
    TcpLink asking{descriptor(simm::sim::SimConnection::kNode), kRoute.peer, kRoute.shard, name};
    TcpLink serving{descriptor(simm::sim::SimConnection::kServer), simm::base::PeerId{7},
                    kRoute.shard, name};
    asking.keys = support::requester_keys(name);
    serving.keys = support::server_keys(name);
    SIMM_CHECK(requester_mail_.control_add(asking));
    SIMM_CHECK(responder_mail_.control_add(serving));
  }

  simm::memory::Region region_;
  std::span<const std::byte> hole_;
  simm::sim::EventLoop loop_;
  simm::sim::Conditions conditions_;
  simm::sim::SocketNetwork network_{loop_, simm::sim::Dice(1, 1), conditions_};
  simm::sim::ProcessClock clock_{loop_, 0};
  conformance::BreakableMover mover_;
  simm::sim::SimSocketIo requester_io_;
  simm::sim::SimSocketIo responder_io_;
  OwnRoster own_roster_{4};
  RequesterRosters requester_rosters_{4};
  TcpLinkMailbox requester_mail_{16};
  TcpLinkMailbox responder_mail_{16};
  TcpRequester requester_{requester_config(), clock_,         requester_io_, mover_,
                          own_roster_,        requester_mail_};
  TcpResponder responder_{responder_config(), clock_, responder_io_, requester_rosters_,
                          responder_mail_};
};

const conformance::TransportRegistration kSimple("tcp_sim", [] {
  return std::make_unique<SimTcpWorld>(false);
});
const conformance::TransportRegistration kAsynchronous("tcp_sim_asynchronous", [] {
  return std::make_unique<SimTcpWorld>(true);
});

}  // namespace sim_tcp_transport_world
