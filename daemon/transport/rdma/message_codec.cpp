#include "daemon/transport/rdma/message_codec.h"

#include <array>
#include <cstring>

#include "daemon/base/hash.h"
#include "daemon/transport/rdma/registration/chunk_table.h"
#include "simm/status.h"

namespace simm::transport {

using wire::Envelope;
using wire::MessageKind;

namespace {

constexpr std::size_t kCheckedFrom = offsetof(Envelope, magic);

constexpr std::size_t kCheckedBytes = sizeof(Envelope) - kCheckedFrom;

std::uint64_t check_of(const std::byte* buffer, std::uint32_t part_bytes,
                       FrameSeal& seal) noexcept {
  // SAFETY: the buffer holds the envelope and the part.
  const std::byte* const envelope = buffer + kCheckedFrom;
  if (!seal.has_key()) return base::payload_digest(envelope, kCheckedBytes + part_bytes);
  const std::byte* const part = buffer + sizeof(Envelope);
  std::array<std::uint64_t, kCheckedBytes / sizeof(std::uint64_t) + 2> words;
  static_assert(sizeof words == kCheckedBytes + 2 * sizeof(std::uint64_t));
  std::memcpy(words.data(), envelope, kCheckedBytes);
  words[words.size() - 2] = part_bytes == 0 ? 0 : seal.digest(part, part_bytes);
  return seal.next_tag(words);
}

bool fields_fit(const Envelope& envelope) noexcept {
  const std::uint32_t bytes = envelope.body_bytes;
  const bool names_request = envelope.slot < wire::kRdmaSlotsMax && envelope.use != 0;
  const auto kind = static_cast<MessageKind>(envelope.kind);
  if (kind != MessageKind::request && envelope.targets != 0) return false;
  switch (kind) {
    case MessageKind::request:
      return names_request && envelope.targets <= wire::kTargetsMax &&
             bytes > envelope.targets * sizeof(wire::RemoteTarget) + sizeof(wire::RequestBody) &&
             bytes <= wire::kRequestMessageBytesMax;
    case MessageKind::cancel:
      return names_request && bytes == 0;
    case MessageKind::reply:
      return names_request && bytes >= sizeof(wire::PageAnswer) &&
             bytes <= wire::kReplyMessageBytesMax;
    case MessageKind::stripe:
      return names_request && bytes == sizeof(wire::StripeBody);
    case MessageKind::roster:
      return envelope.slot == 0 && envelope.use == 0 && bytes == sizeof(wire::RosterBody);
    case MessageKind::ping:
    case MessageKind::pong:
      return envelope.slot == 0 && envelope.use == 0 &&
             (bytes == 0 || bytes == wire::kPartBytesMax);
    case MessageKind::credit:
      return envelope.slot == 0 && envelope.use == 0 && bytes == 0;
  }
  return false;
}

}  // namespace

Envelope make_envelope(MessageKind kind, std::uint32_t slot, std::uint32_t use) noexcept {
  Envelope envelope{};
  envelope.magic = wire::kRdmaMagic;
  envelope.kind = static_cast<std::uint8_t>(kind);
  envelope.slot = slot;
  envelope.use = use;
  return envelope;
}

void seal_envelope(Envelope envelope, FrameSeal& seal, std::byte* buffer) noexcept {
  envelope.check = 0;
  std::memcpy(buffer, &envelope, sizeof envelope);
  envelope.check = check_of(buffer, envelope.part_bytes, seal);
  std::memcpy(buffer, &envelope.check, sizeof envelope.check);
}

bool open_envelope(std::span<const std::byte> message, FrameSeal& seal,
                   Envelope& envelope) noexcept {
  if (message.size() < sizeof envelope) return false;
  std::memcpy(&envelope, message.data(), sizeof envelope);
  if (envelope.magic != wire::kRdmaMagic || envelope.reserved != 0) return false;
  if (envelope.part_bytes != message.size() - sizeof envelope) return false;
  if (envelope.check != check_of(message.data(), envelope.part_bytes, seal)) return false;
  if (envelope.kind == 0 || envelope.kind > wire::kMessageKindMax) return false;
  if (envelope.offset > envelope.body_bytes) return false;
  const std::uint32_t left = envelope.body_bytes - envelope.offset;
  if (envelope.part_bytes > left) return false;
  // Every part but the last is full.
  const bool is_full = envelope.part_bytes == wire::kPartBytesMax;
  if (envelope.part_bytes != left && !is_full) return false;
  return fields_fit(envelope);
}

// ---- targets ----

bool decode_targets(std::span<const std::byte> bytes, ipc::Opcode opcode,
                    std::span<const PageRequest> pages, std::span<const std::uint32_t> inline_at,
                    std::span<wire::RemoteTarget> targets,
                    std::span<PageTargets> of_page) noexcept {
  const std::size_t count = bytes.size() / sizeof(wire::RemoteTarget);
  if (count > targets.size() || bytes.size() % sizeof(wire::RemoteTarget) != 0) return false;
  if (count > 0) std::memcpy(targets.data(), bytes.data(), bytes.size());
  const bool moves = opcode == ipc::Opcode::put || opcode == ipc::Opcode::get;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    std::uint64_t left = moves && inline_at[i] == 0 ? pages[i].slice.length : 0;
    of_page[i] = {static_cast<std::uint16_t>(next), 0};
    const bool has_any = next < count && targets[next].page == i;
    if (!has_any && opcode == ipc::Opcode::put) continue;
    while (left > 0) {
      if (next == count || of_page[i].count == wire::kTargetsOfPageMax) return false;
      const wire::RemoteTarget& target = targets[next];
      if (target.page != i || target.bytes == 0 || target.bytes > left) return false;
      if (target.bytes - 1 > ~target.address) return false;  // beyond the end of all addresses
      left -= target.bytes;
      ++next;
      ++of_page[i].count;
    }
  }
  return next == count;
}

bool decode_stripe(std::span<const std::byte> body, wire::StripeBody& stripe) noexcept {
  if (body.size() != sizeof stripe) return false;
  std::memcpy(&stripe, body.data(), sizeof stripe);
  return stripe.number != 0 && stripe.reserved == 0 && stripe.page_count > 0 &&
         stripe.page_count <= kStripedPagesMax && stripe.first_page < stripe.page_count &&
         stripe.stripe_count >= 2 && stripe.stripe_count <= kRailsMax &&
         stripe.stripe < stripe.stripe_count;
}

// ---- reply ----

std::uint32_t encode_answers(std::span<const PageReply> replies,
                             std::span<const std::uint32_t> inline_at, const std::byte* payloads,
                             std::byte* to) noexcept {
  // SAFETY: `to` has an answer for each page and kInlineMessageBytes, more than which no reply has.
  std::byte* payload_to = to + replies.size() * sizeof(wire::PageAnswer);
  std::byte* answer_to = to;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    wire::PageAnswer answer{static_cast<std::int32_t>(replies[i].status), 0, replies[i].bytes};
    if (inline_at[i] != 0 && replies[i].status == Status::ok) {
      answer.inline_bytes = static_cast<std::uint32_t>(answer.bytes);
      std::memcpy(payload_to, payloads + inline_at[i] - 1, answer.inline_bytes);
      payload_to += answer.inline_bytes;
    }
    std::memcpy(answer_to, &answer, sizeof answer);
    answer_to += sizeof answer;
  }
  return static_cast<std::uint32_t>(payload_to - to);
}

bool decode_answers(std::span<const std::byte> body, std::span<PageReply> replies,
                    std::span<std::uint32_t> inline_at) noexcept {
  const std::size_t answers_bytes = replies.size() * sizeof(wire::PageAnswer);
  if (body.size() < answers_bytes) return false;
  std::size_t payload_at = answers_bytes;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    wire::PageAnswer answer;
    // SAFETY: the body holds an answer for each page.
    std::memcpy(&answer, body.data() + i * sizeof answer, sizeof answer);
    if (!is_known_status(answer.status)) return false;
    replies[i] = {static_cast<Status>(answer.status), answer.bytes};
    inline_at[i] = 0;
    if (answer.inline_bytes == 0) continue;
    if (answer.status != 0 || answer.inline_bytes != answer.bytes) return false;
    if (answer.inline_bytes > body.size() - payload_at) return false;
    inline_at[i] = static_cast<std::uint32_t>(payload_at);
    payload_at += answer.inline_bytes;
  }
  return payload_at == body.size();
}

}  // namespace simm::transport
