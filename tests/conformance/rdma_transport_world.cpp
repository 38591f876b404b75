// The RDMA transport in the conformance suite, over simulated devices: a pair of them on a fabric
// that is late, and one that is nearly at once. A lost link is made anew.
#include <sys/mman.h>

#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/rdma/rdma_requester.h"
#include "daemon/transport/rdma/rdma_responder.h"
#include "simm/check.h"
#include "tests/conformance/breakable_mover.h"
#include "tests/conformance/transport_world.h"
#include "tests/sim/rdma/sim_rdma_device.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"

namespace rdma_transport_world {

using namespace simm::transport;

// The asker's region in two registrations, so that some pages lie in both; all memory of the server
// in one.
class WorldKeys final : public MemoryKeys {
public:
  static constexpr std::uint64_t kSeam = 21 * 1024 * 1024 + 4096;

  WorldKeys(RdmaDevice& asking, RdmaDevice& serving, const simm::memory::Region& region)
      : low_(asking.register_memory({region.base, kSeam, -1, 0}, RemoteAccess::read_write).value()),
        high_(asking
                  .register_memory({region.base + kSeam, region.length - kSeam, -1, 0},
                                   RemoteAccess::read_write)
                  .value()),
        all_(serving
                 .register_memory({reinterpret_cast<std::byte*>(4096), 1ull << 47, -1, 0},
                                  RemoteAccess::none)
                 .value()) {}

  std::size_t local(std::uint16_t, std::byte* at, std::uint64_t bytes,
                    std::span<LocalPart, Work::kPartsMax> parts) const noexcept override {
    parts[0] = {at, static_cast<std::uint32_t>(bytes), all_->local_key};
    return 1;
  }
  std::size_t remote(
      std::uint16_t, const simm::memory::Slice& slice,
      std::span<wire::RemoteTarget, wire::kTargetsOfPageMax> targets) const noexcept override {
    std::size_t count = 0;
    std::uint64_t left = slice.length;
    if (slice.offset < kSeam) {
      const std::uint64_t bytes = std::min(left, kSeam - slice.offset);
      targets[count++] = {low_->remote_address + slice.offset, bytes, low_->remote_key, 0};
      left -= bytes;
    }
    if (left > 0) {
      const std::uint64_t offset = slice.offset + slice.length - left - kSeam;
      targets[count++] = {high_->remote_address + offset, left, high_->remote_key, 0};
    }
    return count;
  }

private:
  std::unique_ptr<Registration> low_;
  std::unique_ptr<Registration> high_;
  std::unique_ptr<Registration> all_;
};

class RdmaWorld final : public conformance::TransportWorld {
public:
  explicit RdmaWorld(int steps_per_turn) : steps_per_turn_(steps_per_turn) {
    simm::memory::FaultGuard::install();
    dial();
  }
  ~RdmaWorld() override { ::munmap(region_.base, kRegionBytes); }

  void connect(RequesterEvents& asker, ResponderEvents& server) override {
    requester_.connect(asker, nullptr);
    responder_.connect(server);
    requester_.do_work();  // takes the first link
    responder_.do_work();
  }
  Requester& requester() override { return requester_; }
  Route route() override { return kRoute; }
  Route unreachable_route() override { return {simm::base::PeerId{9}, 0}; }
  simm::memory::Region& region() override { return region_; }
  int requester_turn() override { return requester_.do_work(); }
  int responder_turn() override { return responder_.do_work(); }
  int network_turn() override {
    int moved = requester_.do_work();
    for (int i = 0; i < steps_per_turn_; ++i) moved += fabric_.step();
    while (responder_mail_.control_take_ended() != nullptr) {
    }
    while (requester_mail_.control_take_ended() != nullptr) dial();
    return moved;
  }
  std::uint32_t credits() override { return kCredits; }
  bool path_is_shared() override { return true; }
  std::uint64_t copied_page_bytes() override { return 2000; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    mover_.break_at(offset, length);
  }

private:
  static constexpr std::uint32_t kCredits = 12;
  static constexpr Route kRoute{simm::base::PeerId{1}, 2};

  static simm::memory::Region make_region() {
    simm::memory::Region region;
    void* mapped =
        ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region.base = static_cast<std::byte*>(mapped);
    region.length = kRegionBytes;
    return region;
  }
  static RdmaRequesterConfig requester_config() {
    RdmaRequesterConfig config;
    config.links_max = 4;
    config.credits = kCredits;
    return config;
  }
  static RdmaResponderConfig responder_config() {
    RdmaResponderConfig config;
    config.links_max = 4;
    config.credits = kCredits;
    return config;
  }

  void dial() {
    auto asking = make_rdma_link(*asking_device_, *asking_port_, true).value();
    auto serving = make_rdma_link(*serving_device_, *serving_port_, false).value();
    asking->link = serving->link = next_link_++;
    asking->peer = kRoute.peer;
    serving->peer = simm::base::PeerId{7};
    asking->shard = serving->shard = kRoute.shard;
    SIMM_CHECK(serving->queue_pair->connect(asking->queue_pair->address()).has_value());
    SIMM_CHECK(asking->queue_pair->connect(serving->queue_pair->address()).has_value());
    SIMM_CHECK(requester_mail_.control_add(asking));
    SIMM_CHECK(responder_mail_.control_add(serving));
  }

  const int steps_per_turn_;
  simm::memory::Region region_ = make_region();
  simm::base::ManualClock clock_;
  conformance::BreakableMover mover_;
  simm::sim::SimRdmaFabric fabric_{1};
  std::unique_ptr<RdmaDevice> asking_device_ = fabric_.make_device();
  std::unique_ptr<RdmaDevice> serving_device_ = fabric_.make_device();
  std::unique_ptr<RdmaPort> asking_port_ = asking_device_->make_port(4096).value();
  std::unique_ptr<RdmaPort> serving_port_ = serving_device_->make_port(4096).value();
  WorldKeys keys_{*asking_device_, *serving_device_, region_};
  AskerLinks asker_links_{4};
  AskerRosters asker_rosters_{4};
  RdmaLinkMailbox requester_mail_{16};
  RdmaLinkMailbox responder_mail_{16};
  RdmaRequester requester_{requester_config(), clock_,         {asking_port_.get()}, keys_, mover_,
                           asker_links_,       requester_mail_};
  RdmaResponder responder_{responder_config(), clock_,         {serving_port_.get()}, keys_,
                           asker_rosters_,     responder_mail_};
  std::uint64_t next_link_ = 1;
};

const conformance::TransportRegistration kLate("rdma_late",
                                               [] { return std::make_unique<RdmaWorld>(2); });
const conformance::TransportRegistration kQuick("rdma_quick",
                                                [] { return std::make_unique<RdmaWorld>(40); });

}  // namespace rdma_transport_world
