// In the steady state the TCP transport allocates nothing, on either side.
#include <doctest/doctest.h>

#include <chrono>

#include "tests/support/tcp_ends.h"
#include "tests/unit/daemon/transport/counted_allocations.h"
#include "tests/unit/daemon/transport/local/local_world.h"
#include "tests/unit/daemon/transport/tcp/frugal_ends.h"

namespace tcp_allocation_test {

using namespace frugal_ends;
using namespace local_world;
using counted_allocations::t_count;
using counted_allocations::t_is_counting;
using support::TcpEnds;

constexpr Route kRoute{base::PeerId{1}, 0};

TEST_CASE("tcp allocations: none after the first requests") {
  for (const SocketIoChoice choice : support::io_choices()) {
    CAPTURE(static_cast<int>(choice));
    constexpr std::uint64_t kLong = 400'000;
    TestRegion memory(kPages * kLong);
    std::vector<std::unique_ptr<Ask>> asks;
    for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
      for (const std::uint64_t length : {std::uint64_t{4096}, kLong}) {
        asks.push_back(std::make_unique<Ask>(memory.region, opcode, kPages, length));
      }
    }
    FrugalServer server(kLong);
    FrugalRequester requester;
    TcpEnds ends(choice);
    ends.requester.connect(requester, nullptr);
    ends.responder.connect(server);
    ends.dial(kRoute);
    ends.turn();
    t_count = 0;
    for (int i = 0; i < 200; ++i) {
      t_is_counting = i >= 8;
      const Ask& ask = *asks[static_cast<std::size_t>(i) % asks.size()];
      REQUIRE(ends.requester.post(kRoute, 1, ask.request) == Status::ok);
      // The kernel gives back what was sent without copies at its own pace, late on a busy machine.
      const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (requester.answered == i && std::chrono::steady_clock::now() < patience) {
        ends.requester.do_work();
        ends.responder.do_work();
        t_is_counting = false;  // the relay is the test's
        ends.network_turn();
        t_is_counting = i >= 8;
      }
      t_is_counting = false;
      REQUIRE(requester.answered == i + 1);
    }
    CHECK(requester.bad == 0);
    CHECK(t_count == 0);
  }
}

}  // namespace tcp_allocation_test
