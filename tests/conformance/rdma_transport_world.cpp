// The RDMA transport in the conformance suite, over simulated devices: a pair of them on a fabric
// that is late, and one that is nearly at once; and with a link over each of two rails, between
// which pages are cut. A lost link is made anew.
#include <sys/mman.h>

#include <map>
#include <memory>
#include <utility>

#include "simm/check.h"
#include "tests/conformance/breakable_mover.h"
#include "tests/conformance/transport_world.h"
#include "tests/support/rdma_ends.h"

namespace rdma_transport_world {

using namespace simm::transport;

class RdmaWorld final : public conformance::TransportWorld {
public:
  explicit RdmaWorld(int steps_per_turn, int rails = 1)
      : rails_(rails), ends_(config(steps_per_turn, rails, mover_)) {
    ends_.keys.add(region_, kSeam);
    for (int rail = 0; rail < rails; ++rail) dial();
  }
  ~RdmaWorld() override { ::munmap(region_.base, kRegionBytes); }

  Requester& requester() override { return ends_.requester; }
  Responder& responder() override { return ends_.responder; }
  Route route() override { return kRoute; }
  Route unreachable_route() override { return {simm::base::PeerId{9}, 0}; }
  simm::memory::Region& region() override { return region_; }
  int requester_turn() override { return ends_.requester.do_work(); }
  int responder_turn() override { return ends_.responder.do_work(); }
  int network_turn() override {
    int moved = ends_.requester.do_work();
    moved += ends_.network_turn();
    // The control thread of the other daemon says that its end is gone.
    for (const auto& [link, loss] : ends_.lost_by_server()) {
      SIMM_CHECK(ends_.requester_mail.control_drop_link(link));
    }
    for (const auto& [link, loss] : ends_.lost_by_requester()) {
      if (rails_ > 1) next_rail_ = rails_of_.at(link);
      dial();
    }
    return moved;
  }
  const simm::base::Clock& clock() override { return ends_.clock; }
  std::uint32_t credits() override { return kCredits; }
  bool path_is_shared() override { return true; }
  bool asks_again() override { return rails_ > 1; }
  std::uint64_t copied_page_bytes() override { return 2000; }
  void break_region(std::uint64_t offset, std::uint64_t length) override {
    mover_.break_at(offset, length);
  }

private:
  static constexpr std::uint32_t kCredits = 12;
  static constexpr Route kRoute{simm::base::PeerId{1}, 2};
  // Some pages lie in two registrations.
  static constexpr std::uint64_t kSeam = 21 * 1024 * 1024 + 4096;

  static simm::memory::Region make_region() {
    simm::memory::Region region;
    void* mapped =
        ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region.base = static_cast<std::byte*>(mapped);
    region.length = kRegionBytes;
    return region;
  }
  static support::RdmaEndsConfig config(int steps_per_turn, int rails, Mover& mover) {
    support::RdmaEndsConfig config;
    config.mover = &mover;
    config.asking.credits = config.serving.credits = kCredits / static_cast<std::uint32_t>(rails);
    config.asking.stripe_bytes_min = 64 * 1024;  // with two rails
    config.steps_per_turn = steps_per_turn;
    return config;
  }
  void dial() {
    const std::uint16_t rail = std::exchange(next_rail_, next_rail_ ^ 1);
    rails_of_[ends_.dial(kRoute, rail)] = rail;
  }

  const int rails_;
  simm::memory::Region region_ = make_region();
  conformance::BreakableMover mover_;
  support::RdmaEnds ends_;
  std::uint16_t next_rail_ = 0;
  std::map<std::uint64_t, std::uint16_t> rails_of_;  // by link
};

const conformance::TransportRegistration kLate("rdma_late",
                                               [] { return std::make_unique<RdmaWorld>(2); });
const conformance::TransportRegistration kQuick("rdma_quick",
                                                [] { return std::make_unique<RdmaWorld>(40); });
const conformance::TransportRegistration kStriped("rdma_striped",
                                                  [] { return std::make_unique<RdmaWorld>(4, 2); });

}  // namespace rdma_transport_world
