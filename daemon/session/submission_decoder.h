// SubmissionDecoder: the one place where what a client wrote becomes something the daemon acts on.
// It works on private copies: the submission it is given, and descriptors and keys that it copies
// out of the lane once, each right before it looks at them. An Operation that it has filled
// contains validated values only.
//
// Meaningless but harmless values (a put_mode on a get, an offset on an exists) are ignored;
// unknown bits, reserved words and everything out of range are the client's breach of the protocol.
// Thread: the session's data agent. Holds no state.
#pragma once

#include <cstdint>

#include "daemon/engine/operation.h"
#include "daemon/memory/region_table.h"
#include "daemon/session/name_space_table.h"
#include "ipc/daemon_lane.h"

namespace simm::session {

struct Decoded {
  // none: decoded. Else the session is to be poisoned with it.
  ipc::PoisonReason breach = ipc::PoisonReason::none;
  // Of an honest client: ok, or why this submission fails as a whole (a region retired meanwhile).
  Status status = Status::ok;
  std::uint64_t slice_bytes = 0;  // sum over all pages
  // Sum over all pages, and more than was copied where they share bytes: each key is hashed and
  // compared by itself.
  std::uint64_t key_bytes = 0;
};

class SubmissionDecoder {
public:
  SubmissionDecoder(const memory::RegionTable& regions, const NameSpaceTable& name_spaces) noexcept
      : regions_(regions), name_spaces_(name_spaces) {}

  // Whether the submission itself is well formed. Its page range then lies inside the lane.
  [[nodiscard]] ipc::PoisonReason check(ipc::Submission submission) const noexcept;

  // Fills `operation` from a submission that check() has passed and that has pages. Of the header
  // all but tenant, epoch and deadline.
  [[nodiscard]] Decoded decode(ipc::Submission submission, const ipc::DaemonLane& lane,
                               engine::Operation& operation) const noexcept;

private:
  struct KeySpan {
    std::uint32_t first = ~0u;
    std::uint32_t end = 0;
  };
  // Fills every field of `out` but index, key, hash and group. ok; invalid_state: the region was
  // retired; poisoned: a breach. (`page` is a private copy, by reference: reading sixteen bytes at
  // once of what was just written by eight would stall.)
  [[nodiscard]] Status decode_page(ipc::Opcode opcode, const ipc::PageDescriptor& page,
                                   transport::PageRequest& out) const noexcept;

  const memory::RegionTable& regions_;
  const NameSpaceTable& name_spaces_;
};

}  // namespace simm::session
