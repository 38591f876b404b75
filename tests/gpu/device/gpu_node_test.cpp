// The tiers of all GPUs of a node, as the daemon asks them: a piece comes out of the own tier, or
// is pushed out of another one's, or comes from the host. They are compared with one tier of the
// same size in all that every GPU could read.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "daemon/memory/gpu/gpu_seen.h"
#include "daemon/memory/gpu/gpu_tier.h"
#include "tests/gpu/gpu_buffer.h"
#include "tests/support/number_from.h"

namespace gpu_node_test {

using namespace simm::memory;

constexpr std::size_t kGpus = 8;
constexpr std::uint64_t kExtentBytes = 2 << 20;
constexpr std::uint64_t kPieceBytes = 64 << 10;
constexpr std::uint64_t kExtents = 4;  // of each GPU
constexpr std::size_t kPieces = kGpus * kExtents * kExtentBytes / kPieceBytes;

struct OneGpu {
  OneGpu() {
    REQUIRE(gpu_tests::driver().stream_create(&stream, simm::cuda::kStreamNonBlocking) ==
            simm::cuda::kSuccess);
    GpuTierConfig config;
    config.extent_bytes = kExtentBytes;
    tier = std::make_unique<GpuTier>(
        gpu_tests::driver(), 0, stream, counts, *names, [] { return std::uint64_t{1}; }, config);
    tier->resize(kExtents * kExtentBytes, 0);
  }
  ~OneGpu() {
    tier->resize(0, 0);
    (void)gpu_tests::driver().stream_synchronize(stream);
    while (tier->is_giving_back() && tier->do_work()) {
    }
  }
  OneGpu(const OneGpu&) = delete;
  OneGpu& operator=(const OneGpu&) = delete;

  simm::cuda::Stream stream = nullptr;
  GpuTierCounts counts{};
  std::unique_ptr<GpuNames> names = std::make_unique<GpuNames>();
  std::unique_ptr<GpuTier> tier;
};

// The order in which GpuImport asks.
bool hits(std::array<OneGpu, kGpus>& gpus, GpuSeen& seen, std::size_t own, std::uint64_t serial) {
  const ObjectPart part{1, serial, 0};
  const std::uint64_t print = gpu_name_print(part, 1);
  if (gpus[own].names->has(print)) {
    return gpus[own].tier->find(part, kPieceBytes, 1, false).is_filled;
  }
  for (std::size_t other = 0; other < kGpus; ++other) {
    if (other == own || !gpus[other].names->has(print)) continue;
    return gpus[other].tier->find_for_peer(part, kPieceBytes, 1).is_filled;
  }
  const bool takes_in = seen.begin(print, true) == GpuSeen::Turn::second;
  const bool is_hit = gpus[own].tier->find(part, kPieceBytes, 1, takes_in).is_filled;
  if (takes_in) seen.end(print);
  return is_hit;
}

// Takes what is got for the second time, by whatever GPU; the least recently used makes way.
class Oracle {
public:
  bool hits(std::uint64_t serial) {
    const auto found = places_.find(serial);
    if (found != places_.end()) {
      order_.splice(order_.end(), order_, found->second);
      return true;
    }
    if (seen_.insert(serial).second) return false;
    seen_.erase(serial);
    if (order_.size() == kPieces) {
      places_.erase(order_.front());
      order_.pop_front();
    }
    places_[serial] = order_.insert(order_.end(), serial);
    return false;
  }

private:
  std::list<std::uint64_t> order_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
  std::set<std::uint64_t> seen_;
};

struct Share {
  double node = 0;
  double oracle = 0;
};

// Conversations whose turns read their pieces again, more of them with each turn. `sticky`: of a
// hundred turns, so many are on the GPU of the last one.
Share replay(std::uint64_t seed, std::uint64_t sticky) {
  std::mt19937_64 random(seed);
  std::array<OneGpu, kGpus> gpus;
  const auto seen = std::make_unique<GpuSeen>();
  Oracle oracle;
  struct Conversation {
    std::size_t gpu = 0;
    std::uint64_t first = 0;
    std::uint64_t pieces = 0;
  };
  std::vector<Conversation> open;
  std::uint64_t last = 0;
  std::uint64_t gets = 0;
  Share share;
  while (gets < 120'000) {
    const bool is_new = open.size() < 40 || random() % 8 == 0;
    if (is_new) {
      if (open.size() >= 60) open.erase(open.begin() + static_cast<long>(random() % open.size()));
      open.push_back({random() % kGpus, last * 1000, 4 + random() % 8});
      ++last;
    }
    Conversation& talk = open[is_new ? open.size() - 1 : random() % open.size()];
    if (random() % 100 >= sticky) talk.gpu = random() % kGpus;
    // What all conversations begin with, and their own.
    for (std::uint64_t piece = 0; piece < 4 + talk.pieces; ++piece) {
      const std::uint64_t serial = piece < 4 ? 1'000'000'000 + piece : talk.first + piece;
      share.node += hits(gpus, *seen, talk.gpu, serial) ? 1 : 0;
      share.oracle += oracle.hits(serial) ? 1 : 0;
      ++gets;
    }
    talk.pieces += random() % 3;
    if (talk.pieces > 40) talk.pieces = 40;
  }
  for (const OneGpu& gpu : gpus) REQUIRE(gpu.tier->audit() == nullptr);
  share.node /= static_cast<double>(gets);
  share.oracle /= static_cast<double>(gets);
  return share;
}

}  // namespace gpu_node_test

TEST_CASE("gpu node: the tiers of eight GPUs serve nearly as much as one that all could read") {
  using namespace gpu_node_test;
  const std::uint64_t seed = simm::test_support::number_from("SIMM_TEST_SEED", 5);
  CAPTURE(seed);
  for (const std::uint64_t sticky : {100u, 90u, 0u}) {
    CAPTURE(sticky);
    const Share share = replay(seed, sticky);
    MESSAGE("eight tiers serve " << share.node << " of the gets, the oracle " << share.oracle
                                 << ": " << share.node / share.oracle);
    CHECK(share.oracle > 0.3);
    CHECK(share.oracle < 0.99);
    CHECK(share.node >= 0.9 * share.oracle);
  }
}
