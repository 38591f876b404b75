// What a responder moves and sends on a link: pulls, pushes and replies.
#include <algorithm>
#include <cstring>

#include "daemon/transport/rdma/rdma_responder_link.h"
#include "simm/check.h"

namespace simm::transport {

using wire::Envelope;
using wire::MessageKind;

namespace {

// Tags of works.
constexpr std::uint32_t kTagPageBits = 10;
static_assert(1u << kTagPageBits >= ipc::kPagesPerSubmissionMax);

}  // namespace

void RdmaResponderLink::list(RdmaIncoming& incoming) noexcept {
  if (incoming.is_listed || !channel_.is_open()) return;
  incoming.is_listed = true;
  work_.push(incoming.slot, incoming.header.tenant);
}

// ---- the server's calls ----

RdmaIncoming::PageMove& RdmaResponderLink::begin_move(RdmaIncoming& incoming, std::uint16_t page,
                                                      MoveKind kind, std::byte* memory,
                                                      std::uint64_t length) noexcept {
  SIMM_CHECK(incoming.is_served && page < incoming.page_count);
  RdmaIncoming::PageMove& move = incoming.moves[page];
  SIMM_CHECK(move.kind == MoveKind::none);
  move = {};
  move.memory = memory;
  move.length = length;
  move.kind = kind;
  serving_.begin_move(incoming);
  incoming.orders.push(page);
  list(incoming);
  return move;
}

void RdmaResponderLink::pull(RdmaIncoming& incoming, std::uint16_t page,
                             std::span<std::byte> extent) noexcept {
  SIMM_CHECK(extent.size() == incoming.page_list[page].slice.length);
  begin_move(incoming, page, MoveKind::pull, extent.data(), extent.size()).is_ready = true;
}

void RdmaResponderLink::push(RdmaIncoming& incoming, std::uint16_t page,
                             std::span<const std::byte> bytes, bool whole_digest) noexcept {
  SIMM_CHECK(bytes.size() <= incoming.page_list[page].slice.length);
  // SAFETY: a push only reads its memory.
  auto* const memory = const_cast<std::byte*>(bytes.data());
  RdmaIncoming::PageMove& move = begin_move(incoming, page, MoveKind::push, memory, bytes.size());
  move.is_ready = !whole_digest;
  const bool fits = bytes.size() <= shared_.config.inline_page_bytes &&
                    bytes.size() <= kInlineMessageBytes - incoming.payload_bytes;
  if (bytes.empty() || !fits) return;
  incoming.answer_at[page] = 1 + incoming.payload_bytes;
  incoming.payload_bytes += static_cast<std::uint32_t>(bytes.size());
}

void RdmaResponderLink::reply(RdmaIncoming& incoming, std::span<const PageReply> pages) noexcept {
  serving_.answer(incoming, pages.size());
  if (!channel_.is_open()) return;  // there is nobody to hear it
  for (std::uint16_t page = 0; page < incoming.page_count; ++page) {
    if (incoming.answer_at[page] == 0 || pages[page].status != Status::ok) continue;
    SIMM_CHECK(pages[page].bytes == incoming.moves[page].length);
  }
  incoming.reply_bytes =
      encode_answers(pages, incoming.answer_at, incoming.payloads.data(), incoming.reply.data());
  incoming.reply_sent = 0;
  incoming.is_replying = true;
  list(incoming);
}

// ---- turns ----

bool RdmaResponderLink::send_pong() noexcept {
  if (!owes_long_pong_) return channel_.send_bare(make_envelope(MessageKind::pong, 0, 0));
  if (!channel_.can_send()) return false;
  channel_.send_long(MessageKind::pong);
  return true;
}

int RdmaResponderLink::run() noexcept {
  if (!channel_.is_open()) return 0;
  int work = 0;
  if (owes_pong_ && send_pong()) {
    owes_pong_ = owes_long_pong_ = false;
    ++work;
  }
  waits_for_keys_ = false;
  // Each slot that can not go on at most once.
  std::uint32_t stuck = 0;
  for (int steps = 0; steps < kStepsPerTurn && stuck < work_.size(); ++steps) {
    RdmaIncoming& incoming = slots_[work_.pop()];
    incoming.is_listed = false;
    const Step did = step(incoming);
    waits_for_keys_ |= did == Step::waiting;
    if (did == Step::done) {
      ++work;
      stuck = 0;
    } else {
      list(incoming);
      ++stuck;
    }
    work_.end_turn(stepped_bytes_, did != Step::done);
  }
  if (channel_.owes_credit()) channel_.send_credit();
  channel_.flush();
  return work;
}

// One thing of a request; it stays listed while there are more.
RdmaResponderLink::Step RdmaResponderLink::step(RdmaIncoming& incoming) noexcept {
  Step did = Step::done;
  stepped_bytes_ = 0;
  if (incoming.is_replying) {
    did = send_reply_part(incoming);
  } else if (incoming.is_served && incoming.is_cancelled) {
    end_cancelled(incoming);
  } else if (incoming.is_served && incoming.digests.count > 0) {
    const std::uint16_t page = incoming.digests.front();
    RdmaIncoming::PageMove& move = incoming.moves[page];
    digest_some(incoming, page);
    if (move.digested == move.length) {
      incoming.digests.pop();
      end_move(incoming, page, {Status::ok, move.digest});
    }
  } else if (incoming.is_served && incoming.orders.count > 0) {
    did = move_piece(incoming);
  }
  const bool has_more =
      incoming.is_replying || (incoming.is_served && !incoming.is_cancelled &&
                               (incoming.orders.count > 0 || incoming.digests.count > 0));
  if (did == Step::done && has_more) list(incoming);
  return did;
}

RdmaResponderLink::Step RdmaResponderLink::send_reply_part(RdmaIncoming& incoming) noexcept {
  if (!channel_.can_send()) return Step::blocked;
  Envelope envelope = make_envelope(MessageKind::reply, incoming.slot, incoming.use);
  envelope.body_bytes = incoming.reply_bytes;
  envelope.offset = incoming.reply_sent;
  envelope.part_bytes = std::min(wire::kPartBytesMax, incoming.reply_bytes - incoming.reply_sent);
  std::memcpy(channel_.part(), incoming.reply.data() + envelope.offset, envelope.part_bytes);
  channel_.send(envelope);
  incoming.reply_sent += envelope.part_bytes;
  stepped_bytes_ = envelope.part_bytes;
  // Then the slot is the requester's again.
  if (incoming.reply_sent == incoming.reply_bytes) incoming.is_replying = false;
  return Step::done;
}

// Something of the first order.
RdmaResponderLink::Step RdmaResponderLink::move_piece(RdmaIncoming& incoming) noexcept {
  const std::uint16_t page = incoming.orders.front();
  RdmaIncoming::PageMove& move = incoming.moves[page];
  if (!move.is_ready) {
    digest_some(incoming, page);
    move.is_ready = move.digested == move.length;
    return Step::done;
  }
  if (move.length == 0 || is_inline(incoming, page)) {
    incoming.orders.pop();
    copy_inline(incoming, page);
    return Step::done;
  }
  if (incoming.targets_of[page].count == 0) {
    incoming.orders.pop();
    end_move(incoming, page, {Status::transfer_failed, 0});
    return Step::done;
  }
  const Step did = post_piece(incoming, page);
  if (did == Step::done && move.posted == move.length) incoming.orders.pop();
  return did;
}

bool RdmaResponderLink::is_inline(const RdmaIncoming& incoming, std::uint16_t page) const noexcept {
  const bool is_pull = incoming.moves[page].kind == MoveKind::pull;
  return (is_pull ? incoming.inline_at[page] : incoming.answer_at[page]) != 0;
}

void RdmaResponderLink::copy_inline(RdmaIncoming& incoming, std::uint16_t page) noexcept {
  const RdmaIncoming::PageMove& move = incoming.moves[page];
  std::uint64_t digest = move.digest;
  if (move.kind == MoveKind::push) {
    if (move.length > 0) {
      // SAFETY: push() gave it room in the payloads.
      std::memcpy(incoming.payloads.data() + incoming.answer_at[page] - 1, move.memory,
                  move.length);
    }
  } else {
    if (move.length > 0) {
      // SAFETY: decode_request() proved that the payload, as long as the page, lies behind the
      // targets, where its offset counts from.
      const std::byte* const from = incoming.body.data() +
                                    incoming.target_count * sizeof(wire::RemoteTarget) +
                                    incoming.inline_at[page];
      std::memcpy(move.memory, from, move.length);
    }
    digest = base::payload_digest(move.memory, move.length);
  }
  shared_.counters.inline_bytes.add(move.length);
  stepped_bytes_ = move.length;
  end_move(incoming, page, {Status::ok, digest});
}

// A piece ends where its target does. Of a pull, the target is where the bytes come from.
RdmaResponderLink::Step RdmaResponderLink::post_piece(RdmaIncoming& incoming,
                                                      std::uint16_t page) noexcept {
  RdmaIncoming::PageMove& move = incoming.moves[page];
  const bool is_pull = move.kind == MoveKind::pull;
  if (is_pull ? !channel_.can_read() : !channel_.can_write()) return Step::blocked;
  const PageTargets& of_page = incoming.targets_of[page];
  std::uint64_t at = move.posted;
  std::uint16_t index = of_page.first;
  // SAFETY: decode_targets() proved that together they are as long as the slice.
  while (at >= incoming.targets[index].bytes) at -= incoming.targets[index++].bytes;
  const wire::RemoteTarget& target = incoming.targets[index];
  const std::uint64_t left = std::min(move.length - move.posted, target.bytes - at);
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(left, channel_.piece_bytes()));
  Work work;
  work.kind = is_pull ? WorkKind::read : WorkKind::write;
  const std::size_t parts =
      shared_.keys.local(channel_.link().rail, move.memory + move.posted, bytes, work.parts);
  if (parts == 0) return Step::waiting;
  work.part_count = static_cast<std::uint8_t>(parts);
  work.remote = {target.address + at, target.key};
  move.posted += bytes;
  stepped_bytes_ = bytes;
  channel_.move(work, incoming.slot << kTagPageBits | page, bytes, shared_.clock.now_ns());
  return Step::done;
}

void RdmaResponderLink::digest_some(RdmaIncoming& incoming, std::uint16_t page) noexcept {
  RdmaIncoming::PageMove& move = incoming.moves[page];
  const bool is_pull = move.kind == MoveKind::pull;
  base::PayloadDigest& digest = (is_pull ? pull_digests_ : push_digests_)[incoming.slot];
  if (move.digested == 0) digest.begin();
  const std::uint64_t bytes = std::min(kDigestBytes, move.length - move.digested);
  digest.add(move.memory + move.digested, bytes);
  move.digested += bytes;
  stepped_bytes_ = bytes;
  serving_.progress().note();
  if (move.digested == move.length) move.digest = digest.value();
}

// ---- ends ----

void RdmaResponderLink::on_moved(std::uint32_t tag, std::uint32_t bytes) noexcept {
  RdmaIncoming& incoming = slots_[tag >> kTagPageBits];
  const auto page = static_cast<std::uint16_t>(tag & ((1u << kTagPageBits) - 1));
  RdmaIncoming::PageMove& move = incoming.moves[page];
  SIMM_CHECK(incoming.is_served && move.kind != MoveKind::none);
  move.ended += bytes;
  serving_.progress().note();
  if (move.ended < move.posted) return;
  if (incoming.is_cancelled) {
    end_move(incoming, page, {Status::cancelled, 0});
  } else if (move.ended == move.length && (move.kind == MoveKind::push || incoming.is_stripe)) {
    // A part of a page has no digest: who has all of it takes that (rdma_stripes.h).
    end_move(incoming, page, {Status::ok, move.digest});
  } else if (move.ended == move.length) {
    incoming.digests.push(page);
    list(incoming);
  }
}

// Of a cancelled request: what is not on its way ends here, the rest when it has come.
void RdmaResponderLink::end_cancelled(RdmaIncoming& incoming) noexcept {
  incoming.orders.clear();
  incoming.digests.clear();
  for (std::uint16_t page = 0; page < incoming.page_count && incoming.is_served; ++page) {
    const RdmaIncoming::PageMove& move = incoming.moves[page];
    if (move.kind == MoveKind::none || move.ended < move.posted) continue;
    end_move(incoming, page, {Status::cancelled, 0});
  }
}

void RdmaResponderLink::end_move(RdmaIncoming& incoming, std::uint16_t page,
                                 MoveResult result) noexcept {
  RdmaIncoming::PageMove& move = incoming.moves[page];
  move.kind = MoveKind::none;
  if (result.status != Status::ok) incoming.answer_at[page] = 0;
  serving_.end_move(incoming, page, result);
}

}  // namespace simm::transport
