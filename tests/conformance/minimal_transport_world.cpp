// The minimal transport in the conformance suite.
#include <sys/mman.h>

#include "daemon/base/manual_clock.h"
#include "simm/check.h"
#include "tests/conformance/breakable_mover.h"
#include "tests/conformance/minimal/minimal_transport.h"
#include "tests/conformance/transport_world.h"

namespace minimal {

using namespace simm::transport;

class MinimalWorld final : public conformance::TransportWorld {
public:
  MinimalWorld() {
    void* mapped =
        ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region_.base = static_cast<std::byte*>(mapped);
    region_.length = kRegionBytes;
  }
  ~MinimalWorld() override { ::munmap(region_.base, kRegionBytes); }

  Requester& requester() override { return requester_; }
  Responder& responder() override { return responder_; }
  Route route() override { return kRoute; }
  Route unreachable_route() override { return {simm::base::PeerId{9}, 0}; }
  simm::memory::Region& region() override { return region_; }
  int requester_turn() override { return requester_.do_work(); }
  int responder_turn() override { return responder_.do_work(); }
  const simm::base::Clock& clock() override { return clock_; }
  std::uint32_t credits() override { return kCredits; }
  bool path_is_shared() override { return false; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    mover_.break_at(offset, length);
  }

private:
  static constexpr std::uint32_t kCredits = 12;
  static constexpr Route kRoute{simm::base::PeerId{1}, 0};

  simm::memory::Region region_;
  const simm::base::ManualClock clock_;
  conformance::BreakableMover mover_;
  Requests requests_;
  MinimalRequester requester_{requests_, kRoute, kCredits};
  MinimalResponder responder_{requests_, mover_};
};

const conformance::TransportRegistration kMinimal("minimal",
                                                  [] { return std::make_unique<MinimalWorld>(); });

}  // namespace minimal
