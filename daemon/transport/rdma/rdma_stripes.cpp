#include "daemon/transport/rdma/rdma_stripes.h"

#include <algorithm>
#include <cstring>

#include "daemon/transport/rdma/rdma_responder_link.h"
#include "simm/check.h"

namespace simm::transport {

namespace {

RdmaIncoming& stripe_of(Incoming& incoming) noexcept {
  // SAFETY: every Incoming of a RdmaResponder's links is a RdmaIncoming.
  return static_cast<RdmaIncoming&>(incoming);
}

}  // namespace

// ---- gathering ----

RdmaStripes::Striped* RdmaStripes::find(const RdmaIncoming& stripe) noexcept {
  const std::uint64_t requester = stripe.link->serving().requester();
  Striped* free = nullptr;
  for (Striped& striped : requests_) {
    if (striped.state == State::free) free = &striped;
    if (striped.state != State::gathering || striped.requester != requester) continue;
    if (striped.number == stripe.stripe.number) return &striped;
  }
  if (free == nullptr) return nullptr;
  free->state = State::gathering;
  free->requester = requester;
  free->number = stripe.stripe.number;
  free->stripe_count = stripe.stripe.stripe_count;
  free->page_count = stripe.stripe.page_count;
  free->arrived = 0;
  free->is_cancelled = false;
  free->digesting = kNoPage;
  free->stripes.fill(nullptr);
  return free;
}

// Its requester asks for the whole request again, not striped.
void RdmaStripes::refuse(RdmaIncoming& stripe) noexcept {
  stripe.server_data = nullptr;
  std::array<PageReply, kStripedPagesMax> replies;
  const std::size_t count = stripe.pages.size();
  replies.fill({Status::cancelled, 0});
  stripe.responder->reply(stripe, std::span(replies).first(count));
}

// Not all of it will come.
void RdmaStripes::dissolve(Striped& striped) noexcept {
  for (RdmaIncoming*& stripe : striped.stripes) {
    if (stripe != nullptr) refuse(*stripe);
    stripe = nullptr;
  }
  striped.state = State::free;
}

void RdmaStripes::on_request(Incoming& incoming) noexcept {
  RdmaIncoming& stripe = stripe_of(incoming);
  if (!stripe.is_stripe) return events_->on_request(incoming);
  const wire::StripeBody& said = stripe.stripe;
  Striped* const striped = find(stripe);
  if (striped == nullptr) return refuse(stripe);
  const bool fits = striped->stripe_count == said.stripe_count &&
                    striped->page_count == said.page_count &&
                    striped->stripes[said.stripe] == nullptr;
  if (!fits) return refuse(stripe);
  striped->stripes[said.stripe] = &stripe;
  stripe.server_data = striped;
  if (++striped->arrived < striped->stripe_count) return;
  if (!join(*striped)) {
    return dissolve(*striped);
  }
  striped->state = State::served;
  striped->responder = this;
  striped->server_data = nullptr;
  events_->on_request(*striped);
}

// False: the stripes do not fit together.
bool RdmaStripes::join(Striped& striped) noexcept {
  std::uint16_t pages = 0;  // whose beginning was seen
  striped.header = striped.stripes[0]->header;
  striped.requester_id = striped.stripes[0]->requester_id;
  for (std::uint8_t i = 0; i < striped.stripe_count; ++i) {
    if (!add_stripe(striped, *striped.stripes[i], pages)) return false;
  }
  if (pages != striped.page_count) return false;
  striped.pages = std::span<const PageRequest>(striped.page_list).first(pages);
  striped.moves.fill({});
  return true;
}

// A stripe begins where the one before it has ended: in the middle of a page, or with the next one.
bool RdmaStripes::add_stripe(Striped& striped, const RdmaIncoming& stripe,
                             std::uint16_t& pages) noexcept {
  if (stripe.header.opcode != striped.header.opcode) return false;
  std::uint16_t page = stripe.stripe.first_page;
  std::uint64_t offset = stripe.stripe.first_offset;
  for (const PageRequest& part : stripe.pages) {
    if (page >= striped.page_count) return false;
    PageRequest& whole = striped.page_list[page];
    if (offset == 0) {
      if (page != pages++) return false;
      whole = part;
      // The stripe may be over before the server has read it.
      std::memcpy(striped.keys[page].data(), part.key, part.key_bytes);
      whole.key = striped.keys[page].data();
    } else {
      if (page + 1 != pages || whole.hash != part.hash) return false;
      if (offset != whole.slice.length || part.slice.length > ~std::uint64_t{0} - offset) {
        return false;
      }
      whole.slice.length += part.slice.length;
    }
    ++page;
    offset = 0;
  }
  return true;
}

// ---- the server's calls ----

RdmaStripes::Share RdmaStripes::share_of(const RdmaIncoming& stripe, std::uint16_t page) noexcept {
  const std::uint16_t first = stripe.stripe.first_page;
  if (page < first || page - first >= stripe.page_count) return {};
  Share share;
  share.page = static_cast<std::uint16_t>(page - first);
  share.offset = share.page == 0 ? stripe.stripe.first_offset : 0;
  share.bytes = stripe.pages[share.page].slice.length;
  return share;
}

RdmaStripes::Move& RdmaStripes::begin(Striped& striped, std::uint16_t page,
                                      std::span<const std::byte> memory, bool is_pull) noexcept {
  SIMM_CHECK(striped.state == State::served && page < striped.page_count);
  Move& move = striped.moves[page];
  SIMM_CHECK(!move.is_open);
  move = {};
  move.memory = memory.data();
  move.length = memory.size();
  move.is_pull = is_pull;
  move.is_open = true;
  // A stripe that is over moves nothing.
  if (striped.is_cancelled) move.status = Status::cancelled;
  has_work_ = true;
  return move;
}

void RdmaStripes::pull(Incoming& incoming, std::uint16_t page,
                       std::span<std::byte> extent) noexcept {
  auto& striped = static_cast<Striped&>(incoming);
  SIMM_CHECK(extent.size() == striped.page_list[page].slice.length);
  Move& move = begin(striped, page, extent, true);
  if (move.status != Status::ok) return;
  for (RdmaIncoming* const stripe : striped.stripes) {
    if (stripe == nullptr) continue;
    const Share share = share_of(*stripe, page);
    if (share.bytes == 0) continue;
    ++move.stripes_open;
    stripe->responder->pull(*stripe, share.page, extent.subspan(share.offset, share.bytes));
  }
}

void RdmaStripes::push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
                       bool whole_digest) noexcept {
  auto& striped = static_cast<Striped&>(incoming);
  SIMM_CHECK(bytes.size() <= striped.page_list[page].slice.length);
  Move& move = begin(striped, page, bytes, false);
  move.is_digested = !whole_digest;
  if (move.status != Status::ok) return;
  for (RdmaIncoming* const stripe : striped.stripes) {
    if (stripe == nullptr) continue;
    const Share share = share_of(*stripe, page);
    if (share.bytes == 0 || share.offset >= bytes.size()) continue;
    const std::uint64_t length = std::min(share.bytes, bytes.size() - share.offset);
    ++move.stripes_open;
    stripe->responder->push(*stripe, share.page, bytes.subspan(share.offset, length), false);
  }
}

void RdmaStripes::reply(Incoming& incoming, std::span<const PageReply> pages) noexcept {
  auto& striped = static_cast<Striped&>(incoming);
  SIMM_CHECK(striped.state == State::served && pages.size() == striped.page_count);
  const bool is_get = striped.header.opcode == ipc::Opcode::get;
  std::array<PageReply, kStripedPagesMax> replies;
  for (RdmaIncoming*& stripe : striped.stripes) {
    if (stripe == nullptr) continue;
    for (std::uint16_t i = 0; i < stripe->page_count; ++i) {
      const auto page = static_cast<std::uint16_t>(stripe->stripe.first_page + i);
      replies[i] = pages[page];
      if (!is_get || pages[page].status != Status::ok) continue;
      const Share share = share_of(*stripe, page);
      const std::uint64_t moved = pages[page].bytes;
      replies[i].bytes = moved > share.offset ? std::min(share.bytes, moved - share.offset) : 0;
    }
    stripe->server_data = nullptr;
    stripe->responder->reply(*stripe, std::span(replies).first(stripe->page_count));
    stripe = nullptr;
  }
  striped.state = State::free;
}

// ---- the links' upcalls ----

void RdmaStripes::on_moved(Incoming& incoming, std::uint16_t page, MoveResult result) noexcept {
  RdmaIncoming& stripe = stripe_of(incoming);
  if (!stripe.is_stripe) return events_->on_moved(incoming, page, result);
  auto& striped = *static_cast<Striped*>(stripe.server_data);
  Move& move = striped.moves[stripe.stripe.first_page + page];
  SIMM_CHECK(move.is_open && move.stripes_open > 0);
  --move.stripes_open;
  if (move.status == Status::ok) move.status = result.status;
  has_work_ = true;
}

void RdmaStripes::on_cancel(Incoming& incoming) noexcept {
  RdmaIncoming& stripe = stripe_of(incoming);
  if (!stripe.is_stripe) return events_->on_cancel(incoming);
  cancel(*static_cast<Striped*>(stripe.server_data));
}

void RdmaStripes::on_aborted(Incoming& incoming) noexcept {
  RdmaIncoming& stripe = stripe_of(incoming);
  if (!stripe.is_stripe) return events_->on_aborted(incoming);
  auto& striped = *static_cast<Striped*>(stripe.server_data);
  striped.stripes[stripe.stripe.stripe] = nullptr;
  stripe.server_data = nullptr;
  cancel(striped);
}

void RdmaStripes::cancel(Striped& striped) noexcept {
  if (striped.state == State::gathering) {
    dissolve(striped);
    return;
  }
  if (striped.is_cancelled) return;
  striped.is_cancelled = true;
  // What has arrived is not digested any more, and so not stored.
  for (Move& move : striped.moves) {
    if (move.is_open && move.status == Status::ok) move.status = Status::cancelled;
  }
  has_work_ = true;
  events_->on_cancel(striped);
}

// Its requester may have said so, and be answered for what it asked for after that, long before the
// device is done with the queue pair. So a link's end counts when it begins.
bool RdmaStripes::has_lost_link(const Striped& striped) noexcept {
  return std::any_of(striped.stripes.begin(), striped.stripes.end(),
                     [](const RdmaIncoming* stripe) {
                       return stripe != nullptr && !stripe->link->path().is_open();
                     });
}

// ---- turns ----

int RdmaStripes::do_work() noexcept {
  if (!has_work_) return 0;
  has_work_ = false;
  int work = 0;
  for (Striped& striped : requests_) {
    if (striped.state == State::served) work += run(striped);
  }
  return work;
}

int RdmaStripes::run(Striped& striped) noexcept {
  int work = 0;
  if (!striped.is_cancelled && has_lost_link(striped)) {
    cancel(striped);
    if (striped.state != State::served) return 1;
  }
  for (std::uint16_t page = 0; page < striped.page_count; ++page) {
    Move& move = striped.moves[page];
    if (!move.is_open) continue;
    const bool has_arrived = move.stripes_open == 0;
    if (move.status == Status::ok && !move.is_digested && (has_arrived || !move.is_pull)) {
      if (striped.digesting == kNoPage) striped.digesting = page;
      if (striped.digesting == page) {
        work += digest_some(striped, page) ? 1 : 0;
        has_work_ = true;
      }
    }
    const bool is_over = move.status != Status::ok || move.is_digested;
    if (!has_arrived || !is_over) continue;
    if (striped.digesting == page) striped.digesting = kNoPage;
    move.is_open = false;
    ++work;
    has_work_ = true;  // the digest of the next page
    events_->on_moved(striped, page, {move.status, move.digest});
    // It may have been answered, and be another one already.
    if (striped.state != State::served) break;
  }
  return work;
}

bool RdmaStripes::digest_some(Striped& striped, std::uint16_t page) const noexcept {
  Move& move = striped.moves[page];
  if (move.digested == 0) striped.digest.begin();
  const std::uint64_t bytes = std::min(digest_bytes_, move.length - move.digested);
  // SAFETY: digested + bytes <= length, of the server's extent, which is reserved.
  striped.digest.add(move.memory + move.digested, bytes);
  move.digested += bytes;
  if (move.digested < move.length) return true;
  move.digest = striped.digest.value();
  move.is_digested = true;
  striped.digesting = kNoPage;
  return true;
}

}  // namespace simm::transport
