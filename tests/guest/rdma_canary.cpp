// What has come back to a client is the client's: no device touches it any more. Its memory is
// filled with a canary then, and looked at later, while other requests go over the same links.
#include <algorithm>
#include <cstring>
#include <random>

#include "tests/guest/rdma_client.h"

namespace rdma_client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::byte kCanary{0xa5};
constexpr std::byte kStored{0x11};
constexpr std::size_t kPagesOfGet = 8;  // of one get
constexpr std::size_t kBytes = kPagesOfGet * kPageBytes;
constexpr std::size_t kAreas = 6;  // the last gets, each with memory of its own
constexpr auto kWatched = std::chrono::milliseconds(500);

void fill(std::byte* at, std::size_t bytes, std::byte with) {
  std::memset(at, std::to_integer<int>(with), bytes);
}

bool is_canary(const std::byte* at, std::size_t bytes) {
  return at[0] == kCanary && std::memcmp(at, at + 1, bytes - 1) == 0;
}

// Fills memory that nobody else may write any more, and watches it for a while.
void watch(const char* what, std::byte* at, std::size_t bytes) {
  fill(at, bytes, kCanary);
  for (const auto end = Clock::now() + kWatched; Clock::now() < end;) {
    if (!is_canary(at, bytes)) fail(what, "a byte has changed afterwards");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Of a get: some of its bytes have come, and some have not.
bool is_cut(const std::byte* at, std::size_t bytes) {
  const auto come = std::count(at, at + bytes, kStored);
  return come > 0 && static_cast<std::size_t>(come) < bytes;
}

}  // namespace

int canary(const std::string& socket, int seconds) {
  simm::Client client = attach(socket);
  simm::AllocateOptions wish;
  // The daemon is busy, and not stopped: it says when it has let go of the pages.
  wish.stopped_daemon = simm::StoppedDaemon::wait;
  auto region = client.allocate_region((kAreas + 1) * kBytes, wish);
  if (!region) fail("region", region.error().context);
  const Pages pages("canary", kPagesOfGet);
  std::byte* const source = region->data() + kAreas * kBytes;
  fill(source, kBytes, kStored);
  put(client, pages.at(*region, kAreas * kPagesOfGet));
  fill(region->data(), kAreas * kBytes, kCanary);

  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  std::vector<simm::PageResult> results(kPagesOfGet);
  std::size_t cut = 0;  // gets that ended when some of their bytes had come, and some had not
  std::size_t rounds = 0;
  // However slow the machine is, some have to be cut off; who calls this loses patience.
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < end || cut == 0) {
    std::byte* const area = region->data() + rounds % kAreas * kBytes;
    if (!is_canary(area, kBytes)) fail("canary", "a byte has changed after its get was over");
    simm::CallOptions options;
    options.timeout_ms = 1 + static_cast<std::uint32_t>(random() % 60);
    static_cast<void>(
        client.get(pages.at(*region, rounds % kAreas * kPagesOfGet), results, options));
    cut += is_cut(area, kBytes) ? 1U : 0U;
    fill(area, kBytes, kCanary);
    ++rounds;
  }
  watch("canary", region->data(), kAreas * kBytes);
  std::printf("seed %u: %zu gets, %zu of them cut off while their bytes came\n", seed, rounds, cut);
  return EXIT_SUCCESS;
}

}  // namespace rdma_client
