// Helpers of a GPU that die: how often another one takes their place, what is kept of them, and
// what whoever needs one is told.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "daemon/memory/gpu/gpu_device.h"
#include "tests/gpu/device/gpu_rig.h"

namespace gpu_device_test {

// Until it has no restart left.
void use_up(const Rig& rig) {
  for (std::uint32_t life = 0; life <= GpuDevice::kRestartsMax; ++life) {
    REQUIRE(rig.device->view().state == GpuState::running);
    gpu_tests::send_signal(rig.helper(), SIGKILL);
    rig.await_death();
    rig.look(1);
  }
}

// Of the memory that this process and helpers share, in KiB: what this process has touched.
std::uint64_t resident_kib() {
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t sum = 0;
  bool is_shared_file = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("-") < line.find(":")) {
      is_shared_file = line.find("simm-gpu-bounce") != line.npos;
    } else if (is_shared_file && line.rfind("Rss:", 0) == 0) {
      sum += std::stoull(line.substr(4));
    }
  }
  return sum;
}

}  // namespace gpu_device_test

TEST_CASE("gpu device: one whose helpers died too often gets another one some minutes later") {
  using namespace gpu_device_test;
  const Rig rig;
  use_up(rig);
  GpuView view = rig.device->view();
  CHECK(view.state == GpuState::off);
  CHECK(view.helper == -1);
  CHECK(view.restarts == GpuDevice::kRestartsMax);
  CHECK(view.last_error == "the helper ended by itself");
  // Who asks for it meanwhile is told when to ask again, however often.
  const GpuBuffer buffer(kBytes);
  for (int time = 0; time < 2; ++time) {
    const auto refused = rig.try_import(buffer);
    CHECK(refused.status() == simm::Status::unreachable);
    CHECK(refused.error().context ==
          "the helper of this GPU died too often: another one starts within five minutes, register "
          "again then; the last one: the helper ended by itself");
  }
  std::uint32_t looks = 0;
  while (rig.device->view().state == GpuState::off && looks <= GpuDevice::kRestartLooks) {
    rig.look(1);
    ++looks;
  }
  CHECK(looks <= GpuDevice::kRestartLooks);
  CHECK(looks > GpuDevice::kRestartLooks - 10 * GpuDevice::kRestartsMax);
  CHECK(rig.device->view().state == GpuState::running);
  CHECK(rig.import(buffer) != nullptr);
  // That was one of them.
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  rig.look(1);
  CHECK(rig.device->view().state == GpuState::off);
}

TEST_CASE("gpu device: the buffers of a dead helper are free as soon as nobody reads them") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  const auto import = rig.import(buffer);
  Copier::Ticket ticket = 0;
  std::vector<std::byte> own(kReadBytesMax);
  REQUIRE(import->post_read(0, own.size(), ticket) == simm::Status::ok);
  const auto ended = [&] { return import->poll(ticket, own.data(), own.size()); };
  PieceState state = PieceState::pending;
  REQUIRE(gpu_tests::eventually([&] { return (state = ended()) != PieceState::pending; }));
  CHECK(state == PieceState::ok);
  // Its bytes are there when it dies, and nobody has looked yet.
  REQUIRE(import->post_read(0, own.size(), ticket) == simm::Status::ok);
  Copier::Ticket next = 0;
  REQUIRE(import->post_read(0, 1, next) == simm::Status::ok);
  REQUIRE(gpu_tests::eventually([&] { return import->is_fenced(next); }));
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  rig.look(3);
  CHECK(resident_kib() >= kReadBytesMax / 1024);
  own.assign(own.size(), std::byte{});
  CHECK(ended() == PieceState::ok);
  CHECK(own.back() == std::byte{0xcd});
  rig.look(1);
  CHECK(resident_kib() < kReadBytesMax / 1024);
  // What it counted stays.
  CHECK(rig.device->view().copies_out == 3);
  CHECK(rig.device->lives() == 2);
}

TEST_CASE("gpu device: why a helper does not start is said once, however many ask") {
  using namespace gpu_device_test;
  const Rig rig;
  const GpuBuffer buffer(kBytes);
  rig.break_driver("init=999");
  gpu_tests::send_signal(rig.helper(), SIGKILL);
  rig.await_death();
  rig.look(1);
  for (int time = 0; time < 3; ++time) {
    const auto refused = rig.try_import(buffer);
    CHECK(refused.status() == simm::Status::unreachable);
    CHECK(refused.error().context ==
          "the helper of this GPU does not start: cuInit: unknown error (999)");
  }
  CHECK(rig.device->view().last_error == "cuInit: unknown error (999)");
}

TEST_CASE("gpu device: memory that goes while a copy hangs costs the helper no five seconds") {
  using namespace gpu_device_test;
  const Rig rig({64 << 20, 0});
  const GpuBuffer buffer(kBytes);
  const GpuBuffer of_another(kBytes);
  const auto import = rig.import(buffer);
  auto other = rig.import(of_another);
  const std::vector<std::byte> own(64 << 10, std::byte{0x33});
  Copier::Ticket ticket = 0;
  const auto posts = [&] {
    return import->post_object(0, {1, 1, 0}, own.data(), own.size(), ticket) == simm::Status::ok;
  };
  for (int time = 0; time < 3; ++time) {
    REQUIRE(posts());
    REQUIRE(gpu_tests::eventually([&] { return import->is_fenced(ticket); }));
  }
  REQUIRE(rig.device->view().tier_hits == 1);
  rig.break_driver("copy=hang");
  REQUIRE(posts());
  // It was begun, and whoever waits for it has given it up.
  REQUIRE(gpu_tests::eventually([&] { return rig.device->view().tier_hits == 2; }));
  import->fence(ticket);
  other.reset();
  // And not: it did not answer.
  CHECK(rig.device->view().last_error ==
        "killed the helper: a copy did not end after its deadline");
  rig.await_death();
  CHECK(import->is_fenced(ticket));
  rig.break_driver("");
  rig.look(1);
  REQUIRE(posts());
  CHECK(gpu_tests::eventually([&] { return import->is_fenced(ticket); }));
}
