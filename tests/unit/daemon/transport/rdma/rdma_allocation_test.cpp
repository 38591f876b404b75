// In the steady state the RDMA transport allocates nothing, on either side.
#include <doctest/doctest.h>

#include "tests/support/rdma_ends.h"
#include "tests/unit/daemon/transport/counted_allocations.h"
#include "tests/unit/daemon/transport/local/local_world.h"
#include "tests/unit/daemon/transport/tcp/frugal_ends.h"

namespace rdma_allocation_test {

using namespace frugal_ends;
using namespace local_world;
using counted_allocations::Pause;
using counted_allocations::t_count;
using counted_allocations::t_is_counting;

constexpr Route kRoute{base::PeerId{1}, 0};

// The simulated devices allocate as they like.
class QuietQueuePair final : public QueuePair {
public:
  explicit QuietQueuePair(std::unique_ptr<QueuePair> inner) : inner_(std::move(inner)) {
    inner_->owner = this;
  }
  const QueuePairAddress& address() const noexcept override { return inner_->address(); }
  Outcome connect(const QueuePairAddress& far) override { return inner_->connect(far); }
  std::uint32_t reads_max() const noexcept override { return inner_->reads_max(); }
  std::size_t post(std::span<const Work> works) noexcept override {
    const Pause pause;
    return inner_->post(works);
  }
  bool post_receive(std::uint64_t id, const LocalPart& part) noexcept override {
    const Pause pause;
    return inner_->post_receive(id, part);
  }
  void fail() noexcept override {
    const Pause pause;
    inner_->fail();
  }
  void destroy() noexcept override {
    const Pause pause;
    inner_->destroy();
  }

private:
  const std::unique_ptr<QueuePair> inner_;
};

class QuietPort final : public RdmaPort {
public:
  explicit QuietPort(std::unique_ptr<RdmaPort> inner) : inner_(std::move(inner)) {}
  Expected<std::unique_ptr<QueuePair>> make_queue_pair(const QueuePairConfig& config) override {
    return std::unique_ptr<QueuePair>(
        std::make_unique<QuietQueuePair>(inner_->make_queue_pair(config).value()));
  }
  std::size_t poll(std::span<Completion> completions) noexcept override {
    const Pause pause;
    const std::size_t count = inner_->poll(completions);
    for (Completion& one : completions.first(count)) {
      one.queue_pair = static_cast<QuietQueuePair*>(one.queue_pair->owner);
    }
    return count;
  }
  bool prepare_sleep() noexcept override { return inner_->prepare_sleep(); }
  int event_descriptor() const noexcept override { return inner_->event_descriptor(); }

private:
  const std::unique_ptr<RdmaPort> inner_;
};

TEST_CASE("rdma allocations: none after the first requests") {
  constexpr std::uint64_t kLong = 400'000;
  TestRegion memory(kPages * kLong);
  std::vector<std::unique_ptr<Ask>> asks;
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    for (const std::uint64_t length : {std::uint64_t{2000}, kLong}) {
      asks.push_back(std::make_unique<Ask>(memory.region, opcode, kPages, length));
    }
  }
  FrugalServer server(kLong);
  FrugalRequester requester;
  support::RdmaEndsConfig config;
  config.asking.stripe_bytes_min = kLong - 1;
  config.wrap = [](auto port) { return std::make_unique<QuietPort>(std::move(port)); };
  support::RdmaEnds ends(config);
  ends.keys.add(memory.region, kLong + 1000);
  ends.requester.connect(requester, nullptr);
  ends.responder.connect(server);
  ends.dial(kRoute, 0);
  ends.dial(kRoute, 1);
  ends.turn();
  t_count = 0;
  for (int i = 0; i < 200; ++i) {
    t_is_counting = i >= 8;
    const Ask& ask = *asks[static_cast<std::size_t>(i) % asks.size()];
    REQUIRE(ends.requester.post(kRoute, 1, ask.request) == Status::ok);
    for (int turn = 0; turn < 5000 && requester.answered == i; ++turn) {
      ends.requester.do_work();
      ends.responder.do_work();
      const Pause pause;
      ends.network_turn();
    }
    t_is_counting = false;
    REQUIRE(requester.answered == i + 1);
  }
  CHECK(requester.bad == 0);
  CHECK(t_count == 0);
}

}  // namespace rdma_allocation_test
