// GpuDevice with a helper of its own, and maintain() called by the test alone.
#include "daemon/memory/gpu/gpu_device.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/memory/gpu/gpu_lease.h"
#include "tests/gpu/device/gpu_rig.h"
#include "tests/support/starved.h"

TEST_CASE("gpu device: a piece that ends after its fence was asked for costs the helper nothing") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  const pid_t helper = rig.helper();
  gpu_tests::stop_process(helper);
  Copier::Ticket ticket = 0;
  REQUIRE(import->post_read(0, 4096, ticket) == simm::Status::ok);
  import->fence(ticket);
  CHECK_FALSE(import->is_fenced(ticket));
  gpu_tests::send_signal(helper, SIGCONT);
  // As an agent does that gave the piece up: it asks first whether the piece has ended meanwhile.
  std::vector<std::byte> own(4096);
  REQUIRE(gpu_tests::eventually(
      [&] { return import->poll(ticket, own.data(), own.size()) != PieceState::pending; }));
  for (std::uint32_t look = 0; look < GpuDevice::kFencedLooksMax + 1; ++look)
    rig.device->maintain();
  REQUIRE(import->post_read(0, 4096, ticket) == simm::Status::ok);
  CHECK(gpu_tests::eventually(
      [&] { return import->poll(ticket, own.data(), own.size()) == PieceState::ok; }));
  CHECK(rig.device->lives() == 1);
  CHECK(own[0] == std::byte{0xcd});
}

TEST_CASE(
    "gpu device: a piece that has ended costs the helper nothing, however late that is seen") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  // What agents do that get no CPU after a deadline: they look at the piece much later.
  Copier::Ticket given_up = 0;
  Copier::Ticket next = 0;
  REQUIRE(import->post_read(0, 4096, given_up) == simm::Status::ok);
  import->fence(given_up);
  REQUIRE(import->post_read(0, 4096, next) == simm::Status::ok);
  // Pieces of one direction end in their order.
  REQUIRE(
      gpu_tests::eventually([&] { return import->poll(next, nullptr, 0) != PieceState::pending; }));
  rig.look(2 * GpuDevice::kFencedLooksMax);
  CHECK(rig.device->view().last_error == "");
  CHECK(import->is_fenced(given_up));
  CHECK(rig.device->lives() == 1);
}

TEST_CASE("gpu device: a piece that nobody waits for is not begun any more") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  const pid_t helper = rig.helper();
  gpu_tests::stop_process(helper);
  const std::vector<std::byte> own(4096, std::byte{0x11});
  Copier::Ticket given_up = 0;
  Copier::Ticket wanted = 0;
  REQUIRE(import->post_write(0, own.data(), own.size(), given_up) == simm::Status::ok);
  REQUIRE(import->post_write(8192, own.data(), own.size(), wanted) == simm::Status::ok);
  import->fence(given_up);
  CHECK_FALSE(import->is_fenced(given_up));
  gpu_tests::send_signal(helper, SIGCONT);
  CHECK(gpu_tests::eventually([&] { return import->is_fenced(given_up); }));
  CHECK(gpu_tests::eventually([&] { return import->poll(wanted, nullptr, 0) == PieceState::ok; }));
  CHECK(buffer.seen()[0] == std::byte{0xcd});
  CHECK(buffer.seen()[8192] == std::byte{0x11});
  // Neither a copy nor a failure.
  CHECK(rig.device->view().copies_in == 1);
  CHECK(rig.device->view().failed == 0);
  // The next piece in its place is wanted again.
  REQUIRE(import->post_write(0, own.data(), own.size(), wanted) == simm::Status::ok);
  CHECK(gpu_tests::eventually([&] { return import->poll(wanted, nullptr, 0) == PieceState::ok; }));
  CHECK(buffer.seen()[0] == std::byte{0x11});
}

TEST_CASE("gpu device: a helper whose copies end one after the other is not killed for the last") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  rig.break_driver("slow=50000");
  std::vector<Copier::Ticket> tickets;
  const auto ended = [&](Copier::Ticket ticket) {
    std::vector<std::byte> own(4096);
    return import->poll(ticket, own.data(), own.size()) != PieceState::pending;
  };
  for (int piece = 0; piece < 8; ++piece) {
    REQUIRE(import->post_read(0, 4096, tickets.emplace_back()) == simm::Status::ok);
  }
  // All are under way by then.
  CHECK(gpu_tests::eventually([&] { return ended(tickets.front()); }));
  import->fence(tickets.back());
  for (std::size_t piece = 1; piece < tickets.size(); ++piece) {
    // As many looks for each piece as one that hangs has in all.
    rig.look(GpuDevice::kFencedLooksMax / 2);
    REQUIRE(gpu_tests::eventually([&] { return ended(tickets[piece]); }));
  }
  CHECK(rig.device->lives() == 1);
  CHECK(rig.device->view().last_error == "");
}

TEST_CASE("gpu device: a helper that gets no CPU is not taken for one that hangs") {
  using namespace gpu_device_test;
  const Rig rig;
  const pid_t helper = rig.helper();
  // It has work, and is ready for it.
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  const bool was_starved = simm::test_support::starved(helper, [&] {
    Copier::Ticket ticket = 0;
    CHECK(import->post_read(0, 4096, ticket) == simm::Status::ok);
    import->fence(ticket);
    rig.look(2 * GpuDevice::kSilentLooksMax);
  });
  if (!was_starved) {
    MESSAGE("SKIPPED: no right to a real-time thread");
    return;
  }
  CHECK(rig.helper() == helper);
  CHECK(rig.device->view().last_error == "");
}

TEST_CASE("gpu device: what its helper does, and why an earlier one ended, can be seen") {
  using namespace gpu_device_test;
  const Rig rig;
  GpuView view = rig.device->view();
  CHECK(view.state == GpuState::running);
  CHECK(view.helper == rig.helper());
  CHECK(view.model == "GPU 0 of the tests");
  CHECK(view.last_error == "");
  // A helper that is stopped gives no sign of life.
  gpu_tests::stop_process(rig.helper());
  rig.look(GpuDevice::kHungLooks + 1);
  CHECK(rig.device->view().state == GpuState::hung);
  for (std::uint32_t look = 0; look <= GpuDevice::kSilentLooksMax; ++look) {
    if (!rig.device->view().last_error.empty()) break;
    rig.look(1);
  }
  rig.await_death();
  view = rig.device->view();
  CHECK(view.state == GpuState::restarting);
  CHECK(view.last_error == "killed the helper: it gave no sign of life for a second");
  rig.look(1);
  view = rig.device->view();
  CHECK(view.state == GpuState::running);
  CHECK(view.helper == rig.helper());
  CHECK(view.restarts == 1);
}

TEST_CASE("gpu device: regions, copies and bytes are counted, each way, and so is what was lost") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  {
    const auto import = rig.import(buffer);
    CHECK(rig.device->view().regions == 1);
    CHECK(rig.device->view().mapped_bytes == kBytes);
    std::vector<std::byte> own(4096);
    const auto ended = [&](Copier::Ticket ticket, std::byte* to, std::uint64_t bytes) {
      PieceState state = PieceState::pending;
      REQUIRE(gpu_tests::eventually(
          [&] { return (state = import->poll(ticket, to, bytes)) != PieceState::pending; }));
      return state;
    };
    Copier::Ticket ticket = 0;
    REQUIRE(import->post_read(0, 4096, ticket) == simm::Status::ok);
    CHECK(ended(ticket, own.data(), own.size()) == PieceState::ok);
    for (int i = 0; i < 2; ++i) {
      REQUIRE(import->post_write(4096, own.data(), 100, ticket) == simm::Status::ok);
      CHECK(ended(ticket, nullptr, 100) == PieceState::ok);
    }
    // Behind the end of the allocation: what the daemon never asks for, the helper refuses.
    REQUIRE(import->post_read(kBytes, 1, ticket) == simm::Status::ok);
    CHECK(ended(ticket, own.data(), 1) == PieceState::failed);
    gpu_tests::stop_process(rig.helper());
    REQUIRE(import->post_read(0, 1, ticket) == simm::Status::ok);
    gpu_tests::send_signal(rig.helper(), SIGKILL);
    CHECK(ended(ticket, own.data(), 1) == PieceState::lost);
    const GpuView view = rig.device->view();
    CHECK(view.copies_out == 1);
    CHECK(view.bytes_out == 4096);
    CHECK(view.copies_in == 2);
    CHECK(view.bytes_in == 200);
    CHECK(view.failed == 1);
    CHECK(view.lost == 1);
  }
  CHECK(rig.device->view().regions == 0);
  CHECK(rig.device->view().mapped_bytes == 0);
}

TEST_CASE("gpu device: a helper whose driver hangs while memory is taken back is killed for it") {
  using namespace gpu_device_test;
  const Rig rig({64 << 20, 0});
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  const std::vector<std::byte> own(64 << 10, std::byte{0x33});
  const auto got = [&](std::uint64_t serial) {
    Copier::Ticket ticket = 0;
    REQUIRE(import->post_object(0, {1, serial, 0}, own.data(), own.size(), ticket) ==
            simm::Status::ok);
    PieceState state = PieceState::pending;
    REQUIRE(gpu_tests::eventually(
        [&] { return (state = import->poll(ticket, nullptr, 0)) != PieceState::pending; }));
    return state == PieceState::ok;
  };
  for (int time = 0; time < 3; ++time) CHECK(got(1));
  CHECK(rig.device->view().tier_hits == 1);
  CHECK(rig.device->view().tier_bytes == 64 << 20);
  CHECK(rig.device->view().tier_used_bytes == own.size());
  rig.break_driver("copy=hang");
  rig.device->resize_tier(0);
  // Nobody waits for a copy. Between two looks the helper has time to show that it lives; those
  // while it gets no CPU do not count.
  CHECK(gpu_tests::eventually([&] {
    rig.look(1);
    return !rig.device->view().last_error.empty();
  }));
  rig.await_death();
  CHECK(rig.device->view().last_error ==
        "killed the helper: it does not give back memory of its tier");
  rig.break_driver("");
  rig.look(1);
  CHECK(rig.device->view().state == GpuState::running);
  CHECK(rig.device->view().tier_bytes == 0);
  for (int time = 0; time < 3; ++time) CHECK(got(1));
  CHECK(rig.device->view().tier_hits == 1);  // the new helper has no tier
}

TEST_CASE("gpu device: what a new helper refused to import, it is asked for again") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  rig.break_driver("import=2");  // out of memory
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  rig.look(1);
  CHECK(rig.device->view().state == GpuState::running);
  Copier::Ticket ticket = 0;
  CHECK(import->post_read(0, 1, ticket) == simm::Status::unreachable);
  rig.look(GpuDevice::kImportLooks);
  CHECK(import->post_read(0, 1, ticket) == simm::Status::unreachable);
  rig.break_driver("");
  rig.look(GpuDevice::kImportLooks);
  CHECK(import->post_read(0, 1, ticket) == simm::Status::ok);
  REQUIRE(gpu_tests::eventually(
      [&] { return import->poll(ticket, nullptr, 0) != PieceState::pending; }));
  CHECK(rig.device->view().restarts == 1);
}

TEST_CASE("gpu device: one that waits for a hung helper waits a second, and others die meanwhile") {
  using namespace gpu_device_test;
  const Rig rig;
  const Rig other;
  rig.device->meet(other.device);
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  gpu_tests::stop_process(rig.helper());
  gpu_tests::stop_process(other.helper());
  simm::cuda::AllocationHandle handle = 0;
  REQUIRE(gpu_tests::driver().memory_retain_handle(&handle, buffer.pointer()) == 0);
  int descriptor = -1;
  REQUIRE(gpu_tests::driver().memory_export(&descriptor, handle, simm::cuda::kHandlePosixDescriptor,
                                            0) == 0);
  REQUIRE(gpu_tests::driver().memory_release(handle) == 0);
  // Its successor has it.
  CHECK(rig.device->import(simm::ipc::UniqueFd(descriptor), kBytes, 1));
  CHECK(rig.device->view().restarts == 1);
  CHECK(rig.device->view().last_error == "killed the helper: it gave no sign of life for a second");
  CHECK(other.device->view().last_error ==
        "killed the helper: it gave no sign of life for a second");
}

TEST_CASE("gpu device: a tenant leaves slots to others, for reads and for writes") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  gpu_tests::send_signal(rig.helper(), SIGCONT);
  std::vector<std::unique_ptr<GpuImport>> imports;
  // Two regions of the first tenant: they share.
  for (const std::uint64_t tenant : {1u, 1u, 2u, 3u}) imports.push_back(rig.import(buffer, tenant));
  gpu_tests::stop_process(rig.helper());
  std::vector<std::byte> own(4096);
  const auto posts = [&](std::size_t import, bool reads) {
    std::vector<Copier::Ticket> tickets;
    for (Copier::Ticket ticket = 0;; tickets.push_back(ticket)) {
      const simm::Status posted = reads ? imports[import]->post_read(0, 1, ticket)
                                        : imports[import]->post_write(0, own.data(), 1, ticket);
      if (posted == simm::Status::ok) continue;
      CHECK(posted == simm::Status::no_space);
      return tickets;
    }
  };
  std::vector<std::pair<std::size_t, Copier::Ticket>> all;
  for (const bool reads : {true, false}) {
    CAPTURE(reads);
    const std::size_t wanted[] = {12, 0, 3, 1};  // of 16
    for (std::size_t import = 0; import < imports.size(); ++import) {
      const std::vector<Copier::Ticket> tickets = posts(import, reads);
      CHECK(tickets.size() == wanted[import]);
      for (const Copier::Ticket ticket : tickets) all.emplace_back(import, ticket);
    }
  }
  CHECK(rig.device->view().share_waits == 6);
  CHECK(rig.device->view().full_waits == 2);
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  for (const auto& [import, ticket] : all) {
    CHECK(imports[import]->poll(ticket, nullptr, 0) == PieceState::lost);
  }
  // What is over is free again.
  rig.look(1);
  gpu_tests::stop_process(rig.helper());
  const std::vector<Copier::Ticket> again = posts(2, true);
  CHECK(again.size() == 12);
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  for (const Copier::Ticket ticket : again) (void)imports[2]->poll(ticket, nullptr, 0);
}

TEST_CASE("gpu device: a tenant leaves numbers of imports to others") {
  using namespace gpu_device_test;
  GpuShares shares;
  const auto greedy = shares.of(1);
  const auto late = shares.of(2);
  CHECK(shares.of(1) == greedy);
  std::uint32_t taken = 0;
  while (shares.take_import(*greedy) == GpuShares::Taken::yes) ++taken;
  CHECK(taken == kGpuImportsMax / 5 * 4);
  CHECK(shares.take_import(*late) == GpuShares::Taken::yes);
  shares.give_import(*late);
  for (; taken > 0; --taken) shares.give_import(*greedy);
  while (shares.take_import(*late) == GpuShares::Taken::yes) ++taken;
  CHECK(taken == kGpuImportsMax / 5 * 4);
}

TEST_CASE("gpu device: a helper that does not start is tried again later and later") {
  using namespace gpu_device_test;
  const Rig rig;
  rig.break_driver("init=999");
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  rig.look(1);
  CHECK(rig.device->view().last_error == "cuInit: unknown error (999)");
  // The second attempt fails as well, and the next one waits twice as long.
  rig.look(GpuDevice::kStartLooksMin);
  rig.break_driver("");
  rig.look(2 * GpuDevice::kStartLooksMin - 1);
  CHECK(rig.device->view().state == GpuState::restarting);
  const GpuBuffer buffer(kBytes);
  rig.look(1);
  CHECK(rig.device->view().state == GpuState::running);
  CHECK(rig.import(buffer) != nullptr);
}

TEST_CASE("gpu device: a lease is room for the tier, and the end of the lease takes it back") {
  using namespace gpu_device_test;
  const Rig rig({0, 0});
  constexpr std::uint64_t kMax = 3 * kGpuExtentBytes;
  const auto done = [](const GpuOrder& order) {
    return gpu_tests::eventually([&] { return order.state() == GpuOrder::State::done; });
  };
  auto lease = rig.device->lend(1, 2 * kGpuExtentBytes, kMax);
  REQUIRE(lease);
  CHECK(rig.device->view().lent_bytes == 2 * kGpuExtentBytes);
  CHECK(rig.device->view().leases == 1);
  CHECK(done((*lease)->begin()));
  CHECK((*lease)->fits());
  // A tenant has its bound, and another one has its own.
  CHECK(rig.device->lend(1, 2 * kGpuExtentBytes, kMax).status() == simm::Status::out_of_memory);
  auto other = rig.device->lend(2, kMax, kMax);
  REQUIRE(other);
  CHECK(rig.device->view().tier_bytes_max == 5 * kGpuExtentBytes);
  CHECK(done((*other)->reclaim()));
  other->reset();
  CHECK(rig.device->view().lent_bytes == 2 * kGpuExtentBytes);
  lease->reset();  // as with a session that is over
  CHECK(rig.device->view().lent_bytes == 0);
  CHECK(rig.device->view().tier_bytes_max == 0);
  CHECK(rig.device->view().leases == 0);
  // An order to a helper that dies is carried out: its memory is free.
  lease = rig.device->lend(1, kGpuExtentBytes, kMax);
  REQUIRE(lease);
  gpu_tests::stop_process(rig.helper());
  const GpuOrder order = (*lease)->reclaim();
  CHECK(order.state() == GpuOrder::State::pending);
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  CHECK(order.state() == GpuOrder::State::lost);
  CHECK(rig.device->lend(1, kGpuExtentBytes, kMax).status() == simm::Status::unreachable);
}

TEST_CASE(
    "gpu device: of leases that come at one moment those hold that fit, the first one first") {
  using namespace gpu_device_test;
  const Rig rig({0, 0});
  rig.break_driver("memory=" + std::to_string(3 * kGpuExtentBytes));
  constexpr std::uint64_t kMax = 8 * kGpuExtentBytes;
  const auto lend = [&](std::uint64_t tenant, std::uint64_t extents) {
    auto lease = rig.device->lend(tenant, extents * kGpuExtentBytes, kMax);
    REQUIRE(lease);
    return std::move(*lease);
  };
  const auto begin = [](GpuLease& lease) {
    const GpuOrder order = lease.begin();
    REQUIRE(gpu_tests::eventually([&] { return order.state() == GpuOrder::State::done; }));
  };
  // Each would fit alone. Whoever is asked about first, the one that came first holds.
  auto first = lend(1, 2);
  auto second = lend(2, 2);
  begin(*first);
  begin(*second);
  CHECK(second->fits().status() == simm::Status::out_of_memory);
  CHECK(first->fits());
  second.reset();
  // One that is too large alone is in nobody's way, nor is one that has gone.
  auto large = lend(2, 4);
  auto gone = lend(3, 1);
  auto small = lend(4, 1);
  begin(*large);
  begin(*gone);
  begin(*small);
  gone.reset();
  CHECK(small->fits());
  CHECK(large->fits().status() == simm::Status::out_of_memory);
  large.reset();
  // What holds counts.
  auto late = lend(5, 1);
  begin(*late);
  CHECK(late->fits().status() == simm::Status::out_of_memory);
  CHECK(first->reclaim().state() != GpuOrder::State::lost);
  begin(*late);
  auto again = lend(5, 2);
  begin(*again);
  CHECK(again->fits());
}
