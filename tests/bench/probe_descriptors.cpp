// The measured half of ipc.descriptors: how many page descriptors per second one data agent takes
// out of a lane, copied once, validated, and turned into slices of a region. Nothing else of a get
// is done. Its arguments and its output are those of baseline_descriptors.
//   probe_descriptors BATCHES CPU KEY_BYTES
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "daemon/session/submission_decoder.h"
#include "ipc/client_lane.h"

namespace {

using namespace simm;

constexpr std::uint32_t kBatch = ipc::kPagesPerSubmissionMax;
constexpr std::uint64_t kPageBytes = 4'096;

void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
}

// Fills both halves of the lane's descriptors as a client does for batches of gets.
bool fill_lane(ipc::ClientLane& lane, ipc::RegionHandle region, std::uint32_t key_bytes) {
  const std::string key(key_bytes, 'k');
  for (std::uint32_t i = 0; i < ipc::kPageSlots; ++i) {
    ipc::PageDescriptor page{};
    page.offset = i * kPageBytes;
    page.length = kPageBytes;
    page.region = region;
    page.key_offset = i % kBatch * key_bytes;
    page.key_bytes = key_bytes;
    if (lane.write_page(i, page) != Status::ok) return false;
    if (lane.write_key(page.key_offset, key.data(), key_bytes) != Status::ok) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s BATCHES CPU KEY_BYTES\n", argv[0]);
    return 2;
  }
  const std::uint64_t batches = std::strtoull(argv[1], nullptr, 10);
  pin(std::atoi(argv[2]));
  const auto key_bytes = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  void* at =
      mmap(nullptr, ipc::kLaneBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || batches == 0) return 2;
  const ipc::LaneMemory memory(static_cast<std::byte*>(at));
  ipc::ClientLane client(memory);
  const ipc::DaemonLane lane(memory);

  // Never touched, so it needs no memory: of the kind that this process does not map.
  memory::RegionMemory::Spec spec;
  spec.kind = memory::RegionKind::foreign;
  spec.length = ipc::kPageSlots * kPageBytes;
  auto region = memory::RegionMemory::copied(spec, memory::PinCharge(), nullptr);
  memory::RegionTable regions(1);
  const session::NameSpaceTable name_spaces(1, {});
  const session::SubmissionDecoder decoder(regions, name_spaces);
  if (!fill_lane(client, regions.insert(region), key_bytes)) return 2;

  const auto operation = std::make_unique<engine::Operation>();
  std::vector<double> rates;
  for (int round = 0; round < 9; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      ipc::Submission submission{};
      submission.opcode = static_cast<std::uint8_t>(ipc::Opcode::get);
      submission.page_first = static_cast<std::uint32_t>(batch % 2) * kBatch;
      submission.page_count = kBatch;
      const bool accepted =
          decoder.check(submission) == ipc::PoisonReason::none &&
          decoder.decode(submission, lane, *operation).slice_bytes == kBatch * kPageBytes;
      if (!accepted) return 1;
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(batches * kBatch) / spent.count());
  }
  std::sort(rates.begin(), rates.end());
  std::printf("{\"name\": \"descriptors\", \"batches\": %llu, \"descriptors_per_s\": %.0f}\n",
              static_cast<unsigned long long>(batches), rates[rates.size() / 2]);
  return 0;
}
