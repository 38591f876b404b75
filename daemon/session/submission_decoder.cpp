#include "daemon/session/submission_decoder.h"

#include <algorithm>

#include "ipc/range.h"
#include "simm/check.h"

namespace simm::session {
namespace {

constexpr std::uint8_t kPutModeCount = 2;

template <std::size_t kCount>
bool all_zero(const std::uint64_t (&words)[kCount]) noexcept {
  std::uint64_t any = 0;
  for (const std::uint64_t word : words) any |= word;
  return any == 0;
}

bool moves_bytes(ipc::Opcode opcode) noexcept {
  return opcode == ipc::Opcode::put || opcode == ipc::Opcode::get;
}

Decoded breach(ipc::PoisonReason reason) noexcept {
  Decoded decoded;
  decoded.breach = reason;
  return decoded;
}

}  // namespace

ipc::PoisonReason SubmissionDecoder::check(ipc::Submission submission) const noexcept {
  constexpr auto kBad = ipc::PoisonReason::bad_submission;
  if (submission.opcode >= ipc::kOpcodeCount) return kBad;
  if (submission.put_mode >= kPutModeCount) return kBad;
  if ((submission.flags & ~std::uint32_t{ipc::kFlagsKnown}) != 0) return kBad;
  if (submission.reserved0 != 0 || !all_zero(submission.reserved)) return kBad;
  if (!name_spaces_.contains(submission.name_space)) return kBad;
  if (static_cast<ipc::Opcode>(submission.opcode) == ipc::Opcode::noop) {
    return submission.page_count == 0 ? ipc::PoisonReason::none : kBad;
  }
  if (submission.page_count == 0 || submission.page_count > ipc::kPagesPerSubmissionMax)
    return kBad;
  if (!ipc::range_within(submission.page_first, submission.page_count, ipc::kPageSlots))
    return kBad;
  return ipc::PoisonReason::none;
}

Decoded SubmissionDecoder::decode(ipc::Submission submission, const ipc::DaemonLane& lane,
                                  engine::Operation& operation) const noexcept {
  const auto opcode = static_cast<ipc::Opcode>(submission.opcode);
  operation.header.opcode = opcode;
  operation.header.put_mode = static_cast<ipc::PutMode>(submission.put_mode);
  operation.header.exact_size = (submission.flags & ipc::kFlagExactSize) != 0;
  operation.header.ranged = (submission.flags & ipc::kFlagRanged) != 0;
  operation.header.shared_read = (submission.flags & ipc::kFlagShared) != 0;
  const OpenNameSpace name_space = name_spaces_.at(submission.name_space);
  operation.header.name_space = name_space.id;
  operation.header.immutable = name_space.immutable;
  // A key has one value: what is there is what would be put.
  if (name_space.immutable) operation.header.put_mode = ipc::PutMode::if_absent;
  operation.header.ttl_ms = submission.ttl_ms;
  operation.header.lease_ms = submission.lease_ms;
  operation.client_token = submission.token;
  operation.page_first = submission.page_first;
  operation.page_count = submission.page_count;

  constexpr std::uint32_t kAhead = 16;  // pages whose descriptors are on their way
  Decoded all;
  KeySpan keys;
  const std::uint32_t pages_end = submission.page_first + submission.page_count;
  for (std::uint32_t i = 1; i < kAhead; ++i) lane.fetch_page(submission.page_first + i);
  for (std::uint32_t i = 0; i < submission.page_count; ++i) {
    ipc::PageDescriptor page;
    if (submission.page_first + i + kAhead < pages_end) {
      lane.fetch_page(submission.page_first + i + kAhead);
    }
    if (lane.copy_pages(submission.page_first + i, 1, &page) != Status::ok) {
      return breach(ipc::PoisonReason::bad_submission);
    }
    transport::PageRequest& request = operation.pages[i];
    const Status decoded = decode_page(opcode, page, request);
    if (decoded == Status::poisoned) return breach(ipc::PoisonReason::bad_descriptor);
    if (decoded != Status::ok) all.status = decoded;
    lane.fetch_key(page.key_offset + page.key_bytes);
    lane.fetch_result(submission.page_first + i);
    request.index = static_cast<std::uint16_t>(i);
    // SAFETY: the key range was checked against kKeyArenaBytes, which is the array's size: a key
    // keeps the offset that it has in the lane, so that one copy brings all of them.
    request.key = operation.key_bytes.data() + page.key_offset;
    keys.first = std::min(keys.first, page.key_offset);
    keys.end = std::max(keys.end, page.key_offset + page.key_bytes);
    all.key_bytes += page.key_bytes;
    all.slice_bytes += request.slice.length;  // at most 2^10 pages of 2^30 bytes
  }
  if (all.status != Status::ok) return all;

  const Status copied =
      lane.copy_keys(keys.first, keys.end - keys.first,
                     reinterpret_cast<std::byte*>(operation.key_bytes.data()) + keys.first);
  SIMM_CHECK(copied == Status::ok);  // every key lies inside the arena, so their hull does
  return all;
}

Status SubmissionDecoder::decode_page(ipc::Opcode opcode, const ipc::PageDescriptor& page,
                                      transport::PageRequest& out) const noexcept {
  constexpr Status kBreach = Status::poisoned;
  if (!all_zero(page.reserved)) return kBreach;
  if (page.key_bytes == 0 || page.key_bytes > ipc::kKeyBytesMax) return kBreach;
  if (!ipc::range_within(page.key_offset, page.key_bytes, ipc::kKeyArenaBytes)) return kBreach;
  out.key_bytes = page.key_bytes;
  out.depth = page.depth;
  if (!moves_bytes(opcode)) {
    out.object_offset = 0;
    out.slice = {};
    return page.region == ipc::kNoRegion ? Status::ok : kBreach;
  }
  if (page.length == 0 || page.length > ipc::kValueBytesMax) return kBreach;
  if (page.object_offset > ipc::kValueBytesMax) return kBreach;
  if (opcode == ipc::Opcode::put && page.object_offset != 0) return kBreach;
  out.object_offset = page.object_offset;
  if (regions_.slice(page.region, page.offset, page.length, out.slice) == Status::ok) {
    return Status::ok;
  }
  out.slice = {};
  // A region that the client deregisters while another of its threads still names it is no breach.
  if (regions_.is_current(page.region) || !regions_.was_given_out(page.region)) return kBreach;
  return Status::invalid_state;
}

}  // namespace simm::session
