// The RDMA transport in the conformance suite, on two real devices that SIMM_RDMA_DEVICES names
// ("rxe0 rxe1": the requester's and the server's); then no other transport is tested, because that
// is done where machines are quicker than the guest of scripts/rdma-guest.sh.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/rdma/device/verbs_device.h"
#include "daemon/transport/rdma/rdma_requester.h"
#include "daemon/transport/rdma/rdma_responder.h"
#include "simm/check.h"
#include "tests/conformance/breakable_mover.h"
#include "tests/conformance/transport_world.h"
#include "tests/support/link_keys.h"

namespace verbs_transport_world {

using namespace simm::transport;

// The requester's region is registered whole. Memory of the server is registered anew for every
// piece that is moved, because its test allocates extents as it goes, and kept until the end.
class VerbsKeys final : public MemoryKeys {
public:
  VerbsKeys(RdmaDevice& asking, RdmaDevice& serving, const simm::memory::Region& region)
      : serving_(serving),
        region_(
            asking.register_memory({region.base, region.length, -1, 0}, RemoteAccess::read_write)
                .value()) {}

  std::size_t local(std::uint16_t, std::byte* at, std::uint64_t bytes,
                    std::span<LocalPart, Work::kPartsMax> parts) const noexcept override {
    pieces_.push_back(serving_.register_memory({at, bytes, -1, 0}, RemoteAccess::none).value());
    parts[0] = {at, static_cast<std::uint32_t>(bytes), pieces_.back()->local_key};
    return 1;
  }
  std::size_t remote(
      std::uint16_t, const simm::memory::Slice& slice,
      std::span<wire::RemoteTarget, wire::kTargetsOfPageMax> targets) const noexcept override {
    targets[0] = {region_->remote_address + slice.offset, slice.length, region_->remote_key, 0};
    return 1;
  }
  KeysFound look(std::uint16_t, const simm::memory::Slice&) const noexcept override {
    return KeysFound::all;
  }

private:
  RdmaDevice& serving_;
  std::unique_ptr<Registration> region_;
  mutable std::vector<std::unique_ptr<Registration>> pieces_;
};

class VerbsWorld final : public conformance::TransportWorld {
public:
  VerbsWorld(const std::string& asking, const std::string& serving)
      : asking_device_(open(asking)), serving_device_(open(serving)) {
    simm::memory::FaultGuard::install();
    dial();
  }

  Requester& requester() override { return requester_; }
  Responder& responder() override { return responder_; }
  Route route() override { return kRoute; }
  Route unreachable_route() override { return {simm::base::PeerId{9}, 0}; }
  simm::memory::Region& region() override { return memory_.region; }
  int requester_turn() override { return requester_.do_work(); }
  int responder_turn() override { return responder_.do_work(); }
  int network_turn() override {
    const int moved = requester_.do_work();
    while (const auto ended = responder_mail_.control_take_ended()) {
      SIMM_CHECK(requester_mail_.control_drop_link(ended->link));
    }
    while (requester_mail_.control_take_ended() != nullptr) dial();
    // The device needs its time, and on an emulated machine a CPU.
    if (moved == 0) ::usleep(kWaitUs);
    return moved;
  }
  const simm::base::Clock& clock() override { return clock_; }
  std::uint32_t credits() override { return kCredits; }
  bool path_is_shared() override { return true; }
  std::uint64_t copied_page_bytes() override { return 2000; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    mover_.break_at(offset, length);
  }

private:
  static constexpr std::uint32_t kCredits = 12;
  static constexpr std::uint32_t kCompletions = 4096;
  static constexpr unsigned kWaitUs = 500;
  static constexpr Route kRoute{simm::base::PeerId{1}, 2};

  struct Memory {
    Memory() {
      void* mapped =
          ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      SIMM_CHECK(mapped != MAP_FAILED);
      region.base = static_cast<std::byte*>(mapped);
      region.length = kRegionBytes;
    }
    ~Memory() { ::munmap(region.base, kRegionBytes); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    simm::memory::Region region;
  };

  static std::unique_ptr<RdmaDevice> open(const std::string& name) {
    RdmaDeviceConfig config;
    config.device = name;
    return VerbsDevice::open(config).value();
  }
  template <typename Config>
  static Config small() {
    Config config;
    config.links_max = 4;
    config.credits = kCredits;
    return config;
  }
  void dial() {
    auto asking = make_rdma_link(*asking_device_, *asking_port_, true).value();
    auto serving = make_rdma_link(*serving_device_, *serving_port_, false).value();
    asking->keys = support::requester_keys(1);
    serving->keys = support::server_keys(1);
    asking->link = serving->link = ++links_;
    asking->peer = kRoute.peer;
    asking->was_heard = true;  // the suite posts at once
    serving->peer = simm::base::PeerId{7};
    asking->shard = serving->shard = kRoute.shard;
    SIMM_CHECK(serving->queue_pair->connect(asking->queue_pair->address()).has_value());
    SIMM_CHECK(asking->queue_pair->connect(serving->queue_pair->address()).has_value());
    SIMM_CHECK(requester_mail_.control_add(asking));
    SIMM_CHECK(responder_mail_.control_add(serving));
  }

  Memory memory_;
  simm::base::ManualClock clock_;
  conformance::BreakableMover mover_;
  const std::unique_ptr<RdmaDevice> asking_device_;
  const std::unique_ptr<RdmaDevice> serving_device_;
  const std::unique_ptr<RdmaPort> asking_port_ = asking_device_->make_port(kCompletions).value();
  const std::unique_ptr<RdmaPort> serving_port_ = serving_device_->make_port(kCompletions).value();
  VerbsKeys keys_{*asking_device_, *serving_device_, memory_.region};
  OwnRoster own_roster_{4};
  RequesterRosters requester_rosters_{4};
  RdmaLinkMailbox requester_mail_{16};
  RdmaLinkMailbox responder_mail_{16};
  RdmaRequester requester_{small<RdmaRequesterConfig>(),
                           clock_,
                           {asking_port_.get()},
                           keys_,
                           mover_,
                           own_roster_,
                           requester_mail_};
  RdmaResponder responder_{small<RdmaResponderConfig>(), clock_,
                           {serving_port_.get()},        keys_,
                           requester_rosters_,           responder_mail_};
  std::uint64_t links_ = 0;
};

const bool kHasDevices = [] {
  const char* const names = std::getenv("SIMM_RDMA_DEVICES");
  if (names == nullptr) return false;
  std::istringstream words(names);
  std::string asking;
  std::string serving;
  words >> asking >> serving;
  const conformance::TransportRegistration verbs(conformance::kVerbsTransport, [asking, serving] {
    return std::make_unique<VerbsWorld>(asking, serving);
  });
  return true;
}();

}  // namespace verbs_transport_world
