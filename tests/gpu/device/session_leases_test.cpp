// The leases of a session that ends while one of its requests is under way.
#include "daemon/attach/session_leases.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <utility>

#include "ipc/cuda/gpu_name.h"
#include "tests/gpu/device/gpu_rig.h"
#include "tests/unit/daemon/attach/attach_world.h"

namespace session_leases_test {

using namespace simm;
using memory::kGpuExtentBytes;

struct LendingOpener final : control::RegionOpener {
  explicit LendingOpener(memory::GpuDevice& own) : device(own) {}
  control::RegionAnswer open(control::RegionRequest) override { return {}; }
  Expected<std::unique_ptr<memory::GpuLease>> lend(const memory::GpuUuid&, base::TenantId tenant,
                                                   std::uint64_t bytes) override {
    return device.lend(tenant.value, bytes, bytes);
  }
  memory::GpuDevice& device;
};

// As an Attachment is: what an answer keeps.
struct Owner {
  std::optional<ipc::LeaseReply> answer;
};

}  // namespace session_leases_test

TEST_CASE("session leases: a session that ends in the middle of a reclaim is let go at once") {
  using namespace session_leases_test;
  const gpu_device_test::Rig rig({0, 0});
  control_fixture::World world;
  LendingOpener opener(*rig.device);
  control::Tenant tenant{"default", {1}};
  tenant.gpu_lend = {"all"};
  for (const bool has_begun : {false, true}) {
    CAPTURE(has_begun);
    control::SessionLeases leases(world.environment, world.adopter, opener, tenant, 7);
    leases.on_region(ipc::gpu_name(rig.device->uuid()));
    auto owner = std::make_shared<Owner>();
    const std::weak_ptr<Owner> alive = owner;
    const auto answer = [](std::shared_ptr<Owner> of) {
      return [of = std::move(of)](const ipc::LeaseReply& reply) { of->answer = reply; };
    };
    leases.lend({1, rig.device->uuid(), kGpuExtentBytes, 10'000}, answer(owner));
    world.until([&] { return owner->answer.has_value(); });
    REQUIRE(owner->answer->status == Status::ok);
    // The helper does not answer, and the notice is long.
    gpu_tests::stop_process(rig.helper());
    leases.reclaim({2, owner->answer->lease}, answer(owner));
    if (has_begun) world.settle();
    leases.end();
    owner.reset();
    world.until([&] { return alive.expired(); });
    CHECK(rig.device->view().leases == 0);
    gpu_tests::send_signal(rig.helper(), SIGCONT);
  }
}
