// What a requester does with a request whose long pages are cut: which one, and what becomes of it.
#include <algorithm>

#include "daemon/transport/rdma/rdma_requester.h"

namespace simm::transport {

bool RdmaRequester::choose_stripes(const RdmaBatch& batch, Choice& choice) const noexcept {
  if (choice.count < 2 || batch.pages.size() > kStripedPagesMax) return false;
  const bool is_long = std::any_of(
      batch.pages.begin(), batch.pages.end(),
      [this](const auto& page) { return page.slice.length > config_.stripe_bytes_min; });
  if (!is_long) return false;
  // A stripe that can not be posted would be the end of the others. What a rail does not know it is
  // asked to register by that.
  Choice able = choice;
  able.count = 0;
  for (std::size_t i = 0; i < choice.count; ++i) {
    const RdmaRequesterLink& link = *choice.links[i];
    const bool knows = std::all_of(batch.pages.begin(), batch.pages.end(),
                                   [&link](const auto& page) { return link.knows(page); });
    if (knows) able.links[able.count++] = choice.links[i];
  }
  if (able.count < 2) return false;
  choice = able;
  return true;
}

// Of a part that was begun at the page and offset where the last one has ended.
void RdmaRequester::add_slice(RdmaBatch& batch, std::uint8_t part, std::uint16_t page,
                              std::uint64_t offset, std::uint64_t bytes) noexcept {
  PageRequest& slice = batch.stripes[part][batch.parts[part].page_count];
  slice = batch.pages[page];
  slice.slice.offset += offset;
  slice.slice.length = bytes;
}

wire::StripeBody RdmaRequester::stripe_of(const RdmaBatch& batch, std::uint8_t part) noexcept {
  wire::StripeBody said{};
  said.number = batch.stripe_number;
  said.first_offset = batch.parts[part].first_offset;
  said.first_page = batch.parts[part].first_page;
  said.page_count = static_cast<std::uint16_t>(batch.pages.size());
  said.stripe = static_cast<std::uint8_t>(
      std::count_if(batch.parts.begin(), batch.parts.begin() + part,
                    [](const RdmaBatch::Part& before) { return before.page_count > 0; }));
  said.stripe_count = batch.stripe_count;
  return said;
}

// The server answers all stripes alike, each with its part of the bytes; unless some were not put
// together.
void RdmaRequester::end_stripe(RdmaBatch& batch, std::uint8_t part,
                               std::span<const PageReply> pages) noexcept {
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::size_t page = batch.parts[part].first_page + i;
    PageReply& whole = batch.replies[page];
    const auto bit = static_cast<std::uint16_t>(1u << page);
    if ((batch.answered & bit) == 0) {
      batch.answered = static_cast<std::uint16_t>(batch.answered | bit);
      whole = pages[i];
    } else if (whole.status != pages[i].status) {
      whole = {Status::cancelled, 0};
    } else if (batch.header.opcode == ipc::Opcode::get) {
      whole.bytes += pages[i].bytes;
    }
    if (whole.status == Status::cancelled) batch.is_undone = true;
  }
  if (batch.is_undone) return lose_stripe(batch, part);
  end_part(batch, part);
}

void RdmaRequester::lose_stripe(RdmaBatch& batch, std::uint8_t part) noexcept {
  batch.is_undone = true;
  batch.parts[part].state = PartState::over;
  cancel_parts(batch);
  end_part(batch, part);
}

// Nothing of it is under way now. False: nobody waits for it, or nobody is there to be asked.
bool RdmaRequester::ask_whole(RdmaBatch& batch) noexcept {
  if (batch.is_reset || batch.is_cancelled || !is_reachable(batch.route)) {
    batch.is_fenced |= !batch.is_cancelled;
    return false;
  }
  batch.is_striped = batch.is_undone = batch.is_fenced = batch.is_culprit = false;
  batch.part_count = batch.parts_open = 1;
  batch.parts[0] = {0, static_cast<std::uint16_t>(batch.pages.size()), PartState::waiting, true, 0};
  shared_.counters.asked_again.add(1);
  wait(batch);
  return true;
}

}  // namespace simm::transport
