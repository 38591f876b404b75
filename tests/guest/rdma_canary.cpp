// What has come back to a client is the client's: no device touches it any more. Its memory is
// filled with a canary then, and looked at later, while other requests go over the same links.
#include <random>

#include "tests/guest/canary_memory.h"

namespace rdma_client {
namespace {

constexpr std::size_t kAreas = 6;  // the last gets, each with memory of its own

}  // namespace

int canary(const std::string& socket, int seconds) {
  simm::Client client = attach(socket);
  simm::AllocateOptions wish;
  // The daemon is busy, and not stopped: it says when it has let go of the pages.
  wish.stopped_daemon = simm::StoppedDaemon::wait;
  auto region = client.allocate_region((kAreas + 1) * kBytesOfGet, wish);
  if (!region) fail("region", region.error().context);
  const Pages pages("canary", kPagesOfGet);
  std::byte* const source = region->data() + kAreas * kBytesOfGet;
  fill(source, kBytesOfGet, kStored);
  put(client, pages.at(*region, kAreas * kPagesOfGet));
  fill(region->data(), kAreas * kBytesOfGet, kCanary);

  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  std::vector<simm::PageResult> results(kPagesOfGet);
  std::size_t cut = 0;  // gets that ended when some of their bytes had come, and some had not
  std::size_t rounds = 0;
  using Clock = std::chrono::steady_clock;
  // However slow the machine is, some have to be cut off; who calls this loses patience.
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < end || cut == 0) {
    std::byte* const area = region->data() + rounds % kAreas * kBytesOfGet;
    if (!is_canary(area, kBytesOfGet)) fail("canary", "a byte has changed after its get was over");
    simm::CallOptions options;
    options.timeout_ms = 1 + static_cast<std::uint32_t>(random() % 60);
    static_cast<void>(
        client.get(pages.at(*region, rounds % kAreas * kPagesOfGet), results, options));
    cut += is_cut(area, kBytesOfGet) ? 1U : 0U;
    fill(area, kBytesOfGet, kCanary);
    ++rounds;
  }
  watch("canary", region->data(), kAreas * kBytesOfGet);
  std::printf("seed %u: %zu gets, %zu of them cut off while their bytes came\n", seed, rounds, cut);
  return EXIT_SUCCESS;
}

}  // namespace rdma_client
