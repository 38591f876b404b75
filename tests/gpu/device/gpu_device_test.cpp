// GpuDevice with a helper of its own, and maintain() called by the test alone.
#include "daemon/memory/gpu/gpu_device.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/gpu_buffer.h"
#include "tests/gpu/gpu_world.h"
#include "tests/support/starved.h"

namespace gpu_device_test {

using namespace simm::memory;
using gpu_tests::child_of;
using gpu_tests::GpuBuffer;

constexpr std::uint64_t kBytes = 2 << 20;

// The keeper is forked first: afterwards the driver has threads in this process.
struct Rig {
  const simm::test_support::TemporaryDirectory directory{"/tmp"};
  pid_t keeper_pid = -1;
  std::optional<GpuKeeper> keeper;
  std::shared_ptr<GpuDevice> device;

  Rig() {
    break_driver("");
    ::setenv("SIMM_TEST_GPU_FAULTS", (directory / "faults").c_str(), 1);
    auto started = start_gpu_keeper([] { return simm::Outcome(simm::Done{}); });
    REQUIRE(started);
    keeper_pid = started->pid;
    keeper.emplace(std::move(started->socket));
    GpuUuid uuid;
    uuid.fill(0xa0);
    uuid[15] = 0;  // of the only GPU that the tests' driver has
    auto made = GpuDevice::start(*keeper, uuid, {}, false);
    INFO((made ? std::string() : made.error().context));
    REQUIRE(made);
    device = std::move(*made);
  }
  ~Rig() {
    device.reset();
    keeper.reset();
    ::waitpid(keeper_pid, nullptr, 0);  // it ends because its socket was closed
    ::unsetenv("SIMM_TEST_GPU_FAULTS");
  }
  [[nodiscard]] pid_t helper() const { return child_of(keeper_pid, "simmd-gpu"); }
  // Of every process that asks the driver from now on.
  void break_driver(const std::string& line) const {
    std::ofstream(directory / "new") << line << "\n";
    std::filesystem::rename(directory / "new", directory / "faults");
  }
  // Until the helper has died.
  void await_death() const {
    REQUIRE(gpu_tests::eventually([&] { return device->view().helper == -1; }));
  }
  void look(std::uint32_t times) const {
    for (std::uint32_t i = 0; i < times; ++i) device->maintain();
  }
  std::unique_ptr<GpuImport> import(const GpuBuffer& buffer, std::uint64_t tenant = 1) const {
    simm::cuda::AllocationHandle handle = 0;
    REQUIRE(gpu_tests::driver().memory_retain_handle(&handle, buffer.pointer()) == 0);
    int descriptor = -1;
    REQUIRE(gpu_tests::driver().memory_export(&descriptor, handle,
                                              simm::cuda::kHandlePosixDescriptor, 0) == 0);
    REQUIRE(gpu_tests::driver().memory_release(handle) == 0);
    auto made = device->import(simm::ipc::UniqueFd(descriptor), kBytes, tenant);
    REQUIRE(made);
    return std::move(*made);
  }
};

}  // namespace gpu_device_test

TEST_CASE("gpu device: a piece that ends after its fence was asked for costs the helper nothing") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  const pid_t helper = rig.helper();
  REQUIRE(::kill(helper, SIGSTOP) == 0);
  Copier::Ticket ticket = 0;
  REQUIRE(import->post_read(0, 4096, ticket) == simm::Status::ok);
  import->fence(ticket);
  CHECK_FALSE(import->is_fenced(ticket));
  REQUIRE(::kill(helper, SIGCONT) == 0);
  // As an agent does that gave the piece up: it asks first whether the piece has ended meanwhile.
  std::vector<std::byte> own(4096);
  REQUIRE(gpu_tests::eventually(
      [&] { return import->poll(ticket, own.data(), own.size()) == PieceState::ok; }));
  for (std::uint32_t look = 0; look < GpuDevice::kFencedLooksMax + 1; ++look)
    rig.device->maintain();
  REQUIRE(import->post_read(0, 4096, ticket) == simm::Status::ok);
  CHECK(gpu_tests::eventually(
      [&] { return import->poll(ticket, own.data(), own.size()) == PieceState::ok; }));
  CHECK(rig.device->lives() == 1);
  CHECK(own[0] == std::byte{0xcd});
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
    rig.look(4 * GpuDevice::kSilentLooksMax);
  });
  if (!was_starved) {
    MESSAGE("SKIPPED: no right to a real-time thread");
    return;
  }
  CHECK(rig.helper() == helper);
  CHECK(rig.device->view().last_error.empty());
}

TEST_CASE("gpu device: what its helper does, and why an earlier one ended, can be seen") {
  using namespace gpu_device_test;
  const Rig rig;
  GpuView view = rig.device->view();
  CHECK(view.state == GpuState::running);
  CHECK(view.helper == rig.helper());
  CHECK(view.model == "GPU 0 of the tests");
  CHECK(view.last_error.empty());
  // A helper that is stopped gives no sign of life.
  REQUIRE(::kill(rig.helper(), SIGSTOP) == 0);
  REQUIRE(gpu_tests::eventually(
      [&] { return gpu_tests::facts_of(std::to_string(rig.helper())).state == 'T'; }));
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
  // It dies by itself until it has no more lives.
  for (std::uint32_t life = 2; life <= GpuDevice::kLivesMax; ++life) {
    REQUIRE(::kill(rig.helper(), SIGKILL) == 0);
    rig.await_death();
    rig.look(1);
  }
  view = rig.device->view();
  CHECK(view.state == GpuState::off);
  CHECK(view.helper == -1);
  CHECK(view.restarts == GpuDevice::kLivesMax - 1);
  CHECK(view.last_error == "the helper ended by itself");
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
    REQUIRE(::kill(rig.helper(), SIGSTOP) == 0);
    REQUIRE(import->post_read(0, 1, ticket) == simm::Status::ok);
    REQUIRE(::kill(rig.helper(), SIGKILL) == 0);
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

TEST_CASE("gpu device: a tenant leaves slots to others, for reads and for writes") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  REQUIRE(::kill(rig.helper(), SIGCONT) == 0);
  std::vector<std::unique_ptr<GpuImport>> imports;
  // Two regions of the first tenant: they share.
  for (const std::uint64_t tenant : {1u, 1u, 2u, 3u}) imports.push_back(rig.import(buffer, tenant));
  REQUIRE(::kill(rig.helper(), SIGSTOP) == 0);
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
  REQUIRE(::kill(rig.helper(), SIGKILL) == 0);
  rig.await_death();
  for (const auto& [import, ticket] : all) {
    CHECK(imports[import]->poll(ticket, nullptr, 0) == PieceState::lost);
  }
  // What is over is free again.
  rig.look(1);
  REQUIRE(::kill(rig.helper(), SIGSTOP) == 0);
  const std::vector<Copier::Ticket> again = posts(2, true);
  CHECK(again.size() == 12);
  REQUIRE(::kill(rig.helper(), SIGKILL) == 0);
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
  REQUIRE(::kill(rig.helper(), SIGKILL) == 0);
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
