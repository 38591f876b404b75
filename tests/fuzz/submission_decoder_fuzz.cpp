// Submissions and descriptors of any content: what the decoder lets through lies inside its bounds.
// Input: one submission, then page descriptors. Even inputs have their region handles replaced by a
// valid one, or hardly any would get past that check.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "daemon/session/submission_decoder.h"
#include "ipc/client_lane.h"
#include "simm/check.h"

namespace {

using namespace simm;

constexpr std::uint64_t kRegionBytes = 1 << 20;

struct LaneBytes {
  alignas(128) std::byte bytes[ipc::kLaneBytes];
};

struct Rig {
  Rig() : regions(4), name_spaces(4, {{1}}), lane(std::make_unique<LaneBytes>()) {
    memory::RegionMemory::Spec spec;
    spec.kind = memory::RegionKind::foreign;
    spec.length = kRegionBytes;
    for (int i = 0; i < 3; ++i) {
      auto region = memory::RegionMemory::copied(spec, {}, nullptr);
      handle = regions.insert(region);
    }
    SIMM_CHECK(regions.retire(handle - 1) == Status::ok);
  }
  memory::RegionTable regions;
  session::NameSpaceTable name_spaces;
  std::unique_ptr<LaneBytes> lane;
  std::unique_ptr<engine::Operation> operation = std::make_unique<engine::Operation>();
  ipc::RegionHandle handle = ipc::kNoRegion;
};

void check_page(const transport::PageRequest& page, const engine::Operation& operation) {
  const char* const keys = operation.key_bytes.data();
  SIMM_CHECK(page.key_bytes >= 1 && page.key_bytes <= ipc::kKeyBytesMax);
  SIMM_CHECK(page.key >= keys && page.key + page.key_bytes <= keys + ipc::kKeyArenaBytes);
  const bool moves =
      operation.header.opcode == ipc::Opcode::put || operation.header.opcode == ipc::Opcode::get;
  SIMM_CHECK((page.slice.region != nullptr) == moves);
  if (!moves) return;
  SIMM_CHECK(page.slice.length >= 1 && page.slice.length <= kRegionBytes);
  SIMM_CHECK(page.slice.offset <= kRegionBytes - page.slice.length);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Rig rig;
  ipc::Submission submission{};
  if (size < sizeof submission) return 0;
  std::memcpy(&submission, data, sizeof submission);
  const session::SubmissionDecoder decoder(rig.regions, rig.name_spaces);
  if (decoder.check(submission) != ipc::PoisonReason::none) return 0;
  if (submission.page_count == 0) return 0;
  SIMM_CHECK(submission.page_first + submission.page_count <= ipc::kPageSlots);

  ipc::ClientLane client{ipc::LaneMemory(rig.lane->bytes)};
  const std::uint8_t* rest = data + sizeof submission;
  std::size_t left = size - sizeof submission;
  for (std::uint32_t i = 0; i < submission.page_count; ++i) {
    ipc::PageDescriptor page{};
    const std::size_t take = left < sizeof page ? left : sizeof page;
    std::memcpy(&page, rest, take);
    rest += take;
    left -= take;
    if (size % 2 == 0 && page.region != ipc::kNoRegion) page.region = rig.handle;
    SIMM_CHECK(client.write_page(submission.page_first + i, page) == Status::ok);
  }
  const ipc::DaemonLane lane{ipc::LaneMemory(rig.lane->bytes)};
  const session::Decoded decoded = decoder.decode(submission, lane, *rig.operation);
  if (decoded.breach != ipc::PoisonReason::none || decoded.status != Status::ok) return 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < submission.page_count; ++i) {
    check_page(rig.operation->pages[i], *rig.operation);
    bytes += rig.operation->pages[i].slice.length;
  }
  SIMM_CHECK(bytes == decoded.slice_bytes);
  return 0;
}
