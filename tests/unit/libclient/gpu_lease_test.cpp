// Leases of GPU memory at a daemon that knows none, and what libsimm itself refuses. Real leases
// are in tests/gpu.
#include "simm/gpu_lease.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "fake_daemon.h"
#include "simm/client.h"
#include "simm/simm.h"

namespace gpu_lease_unit {

constexpr const char* kGpu = "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000";
constexpr std::uint64_t kBytes = 64 << 20;

}  // namespace gpu_lease_unit

TEST_CASE("gpu lease: a daemon of an older release is not asked, and its session goes on") {
  using namespace gpu_lease_unit;
  const libclient_test::SocketPlace place;
  libclient_test::FakeOptions fake;
  fake.path = place.path();
  const libclient_test::FakeDaemon daemon(fake);
  simm::ClientOptions options;
  options.socket_path = place.path();
  auto client = simm::Client::connect(options);
  REQUIRE(client.has_value());
  const auto lease = client->lend_gpu(kGpu, kBytes);
  CHECK(lease.status() == simm::Status::unsupported);
  CHECK(lease.error().context.find("knows no leases: update it") != std::string::npos);
  CHECK(client->ping({}) == simm::Status::ok);
  CHECK(client->stats().attaches == 1);
  for (const char* const name : {"", "GPU-", "cuda:0", "-1", "1 ", "GPU-A0a0a0a0"}) {
    CAPTURE(name);
    const auto refused = client->lend_gpu(name, kBytes);
    CHECK(refused.status() == simm::Status::invalid_argument);
    CHECK(refused.error().context.find("as nvidia-smi -L names them") != std::string::npos);
  }
  const auto unloaded = client->lend_gpu("0", kBytes);
  CHECK(unloaded.status() == simm::Status::unsupported);
  CHECK(unloaded.error().context.find("no driver of GPUs yet") != std::string::npos);
}

TEST_CASE("gpu lease: one of nothing is over, in C++ and in C") {
  using namespace gpu_lease_unit;
  simm::GpuLease nothing;
  simm::GpuLease moved = std::move(nothing);
  CHECK(moved.bytes() == 0);
  CHECK(moved.reclaim().has_value());
  simm_gpu_lease* lease = nullptr;
  CHECK(simm_gpu_lend(nullptr, kGpu, kBytes, 0, &lease) == SIMM_INVALID_ARGUMENT);
  CHECK(std::string(simm_last_error()) == "client, gpu or out: NULL");
  CHECK(simm_gpu_reclaim(nullptr) == SIMM_INVALID_ARGUMENT);
  CHECK(simm_gpu_lease_bytes(nullptr) == 0);
  simm_gpu_lease_free(nullptr);
}
