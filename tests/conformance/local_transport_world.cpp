// The local transport in the conformance suite: both ends on one agent, and on two.
#include <sys/mman.h>

#include "daemon/base/manual_clock.h"
#include "daemon/transport/local/local_mesh.h"
#include "simm/check.h"
#include "tests/conformance/breakable_mover.h"
#include "tests/conformance/transport_world.h"

namespace local_transport_world {

using namespace simm::transport;

class LocalWorld final : public conformance::TransportWorld {
public:
  explicit LocalWorld(std::uint32_t shard)
      : shard_(shard), mesh_(config(), clock_, {{nullptr, &movers_[0]}, {nullptr, &movers_[1]}}) {
    void* mapped =
        ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region_.base = static_cast<std::byte*>(mapped);
    region_.length = kRegionBytes;
  }
  ~LocalWorld() override { ::munmap(region_.base, kRegionBytes); }

  Requester& requester() override { return mesh_.requester(0); }
  Responder& responder() override { return mesh_.responder(shard_); }
  Route route() override { return {simm::base::kSelf, static_cast<std::uint16_t>(shard_)}; }
  Route unreachable_route() override { return {simm::base::PeerId{3}, 0}; }
  simm::memory::Region& region() override { return region_; }
  int requester_turn() override { return mesh_.requester(0).do_work(); }
  int responder_turn() override { return mesh_.responder(shard_).do_work(); }
  const simm::base::Clock& clock() override { return clock_; }
  std::uint32_t credits() override { return config().credits; }
  bool path_is_shared() override { return false; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    movers_[shard_].break_at(offset, length);
  }

private:
  static LocalMeshConfig config() {
    LocalMeshConfig config;
    config.credits = 12;
    return config;
  }
  std::uint32_t shard_;
  const simm::base::ManualClock clock_;
  conformance::BreakableMover movers_[2];
  LocalMesh mesh_;
  simm::memory::Region region_;
};

const conformance::TransportRegistration kSameAgent("local, same agent",
                                                    [] { return std::make_unique<LocalWorld>(0); });
const conformance::TransportRegistration kOtherAgent("local, two agents", [] {
  return std::make_unique<LocalWorld>(1);
});

}  // namespace local_transport_world
