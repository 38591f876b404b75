// The simulated transport in the conformance suite: nodes and a server on a quiet network, and on
// one that delays and copies slowly.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include "simm/check.h"
#include "tests/conformance/transport_world.h"
#include "tests/sim/sim_requester.h"
#include "tests/sim/sim_responder.h"

namespace sim_transport_world {

using namespace simm::transport;

class SimWorld final : public conformance::TransportWorld {
public:
  explicit SimWorld(bool slow) {
    void* mapped =
        ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region_.base = static_cast<std::byte*>(mapped);
    region_.length = kRegionBytes;
    simm::sim::Conditions& c = network_.conditions;
    c.credits = kCredits;
    c.delay_high_ns = slow ? 60 * simm::sim::kUs : 10 * simm::sim::kUs;
    c.step_bytes_low = 4096;
    c.step_bytes_high = slow ? 16 * 1024 : 64 * 1024;
    // The suite counts turns: a fence, and the notice of it, come within a few.
    c.fence_high_ns = 2 * simm::sim::kUs;
    c.notice_high_ns = 20 * simm::sim::kUs;
    c.reconnect_high_ns = 0;
  }
  ~SimWorld() override {
    responder_.crash();
    ::munmap(region_.base, kRegionBytes);
    CHECK_MESSAGE(report_.clean(), report_.text());
  }

  Requester& requester() override { return requester_; }
  Responder& responder() override { return responder_; }
  Route route() override { return kRoute; }
  Route unreachable_route() override { return {simm::base::PeerId{9}, 0}; }
  simm::memory::Region& region() override { return region_; }
  int requester_turn() override { return requester_.do_work(); }
  int responder_turn() override { return responder_.do_work(); }
  int network_turn() override {
    const std::uint64_t before = loop_.events();
    loop_.run_until(loop_.now_ns() + 20 * simm::sim::kUs);
    return static_cast<int>(loop_.events() - before);
  }
  const simm::base::Clock& clock() override { return clock_; }
  std::uint32_t credits() override { return kCredits; }
  bool path_is_shared() override { return true; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    network_.fail_moves_at(region_.base + offset, length);
  }

private:
  static constexpr std::uint32_t kCredits = 12;
  static constexpr Route kRoute{simm::base::PeerId{1}, 0};
  simm::memory::Region region_;
  simm::sim::EventLoop loop_;
  simm::sim::Report report_{loop_};
  simm::sim::EventLog log_{loop_, simm::sim::LogMode::off};
  simm::sim::Network network_{loop_, simm::sim::Dice(1, 1), log_, report_};
  simm::sim::ProcessClock clock_{loop_, 0};
  simm::sim::SimRequester requester_{network_, 0, clock_};
  simm::sim::SimResponder responder_{network_, kRoute, clock_};
};

const conformance::TransportRegistration kQuiet("sim, quiet",
                                                [] { return std::make_unique<SimWorld>(false); });
const conformance::TransportRegistration kSlow("sim, slow",
                                               [] { return std::make_unique<SimWorld>(true); });

}  // namespace sim_transport_world
