#include "daemon/transport/request_codec.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "simm/check.h"

namespace simm::transport {
namespace {

// Before the entries.
constexpr std::size_t fixed_bytes(bool is_traced) noexcept {
  return sizeof(wire::RequestBody) + (is_traced ? sizeof(wire::TraceBody) : 0);
}

}  // namespace

// ---- request ----

std::uint32_t request_body_bytes(const RequestHeader& header,
                                 std::span<const PageRequest> pages) noexcept {
  std::uint64_t bytes = fixed_bytes(header.trace.is_set()) + pages.size() * sizeof(wire::PageEntry);
  for (const PageRequest& page : pages) bytes += page.key_bytes;
  SIMM_CHECK(bytes <= wire::kRequestBodyBytesMax - wire::kInlineBytesMax);
  return static_cast<std::uint32_t>(bytes);
}

void encode_request(const RequestHeader& header, std::uint64_t remaining_ns,
                    std::span<const PageRequest> pages, std::span<const std::uint8_t> inline_pages,
                    std::byte* to) noexcept {
  wire::RequestBody body{};
  body.page_count = static_cast<std::uint16_t>(pages.size());
  body.opcode = static_cast<std::uint8_t>(header.opcode);
  body.put_mode = static_cast<std::uint8_t>(header.put_mode);
  body.flags =
      (header.exact_size ? wire::kFlagExactSize : 0) | (header.ranged ? wire::kFlagRanged : 0) |
      (header.shared_read ? wire::kFlagSharedRead : 0) | (header.is_moved ? wire::kFlagMoved : 0) |
      (header.trace.is_set() ? wire::kFlagTraced : 0);
  body.tenant = header.tenant.value;
  body.name_space = header.name_space.value;
  body.epoch = header.epoch;
  body.remaining_ns = remaining_ns;
  body.ttl_ms = header.ttl_ms;
  body.lease_ms = header.lease_ms;
  body.trace_id = header.trace_id;
  // SAFETY: `to` has request_body_bytes(header, pages) bytes: this body, its trace, an entry and a
  // key for each page.
  if (header.trace.is_set()) {
    const wire::TraceBody trace{header.trace.high, header.trace.low};
    std::memcpy(to + sizeof body, &trace, sizeof trace);
  }
  std::byte* entry_at = to + fixed_bytes(header.trace.is_set());
  std::byte* key_at = entry_at + pages.size() * sizeof(wire::PageEntry);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const PageRequest& page = pages[i];
    wire::PageEntry entry{};
    entry.hash_low = page.hash.low;
    entry.hash_high = page.hash.high;
    entry.group = page.group;
    entry.slice_bytes = page.slice.length;
    entry.object_offset = header.is_moved ? page.digest : page.object_offset;
    entry.key_bytes = page.key_bytes;
    entry.depth = page.depth;
    if (inline_pages[i] != 0) entry.payload_bytes = static_cast<std::uint32_t>(page.slice.length);
    std::memcpy(entry_at, &entry, sizeof entry);
    std::memcpy(key_at, page.key, page.key_bytes);
    entry_at += sizeof entry;
    key_at += page.key_bytes;
    body.key_bytes += page.key_bytes;
    body.payload_bytes += entry.payload_bytes;
  }
  std::memcpy(to, &body, sizeof body);
}

namespace {

bool decode_request_header(const wire::RequestBody& body, DecodedRequest& request) noexcept {
  if (body.page_count == 0 || body.page_count > ipc::kPagesPerSubmissionMax) return false;
  if (body.opcode == 0 || body.opcode >= ipc::kOpcodeCount) return false;
  if (body.put_mode > static_cast<std::uint8_t>(ipc::PutMode::replace)) return false;
  if ((body.flags & ~wire::kRequestFlagsKnown) != 0) return false;
  if (body.payload_bytes > wire::kInlineBytesMax) return false;
  RequestHeader& header = request.header;
  header.opcode = static_cast<ipc::Opcode>(body.opcode);
  header.put_mode = static_cast<ipc::PutMode>(body.put_mode);
  header.exact_size = (body.flags & wire::kFlagExactSize) != 0;
  header.ranged = (body.flags & wire::kFlagRanged) != 0;
  header.shared_read = (body.flags & wire::kFlagSharedRead) != 0;
  header.is_moved = (body.flags & wire::kFlagMoved) != 0;
  const bool may_be_moved =
      header.opcode == ipc::Opcode::put || header.opcode == ipc::Opcode::exists;
  if (header.is_moved && !may_be_moved) return false;
  header.tenant = {body.tenant};
  header.name_space = {body.name_space};
  header.epoch = body.epoch;
  header.deadline_ns = body.remaining_ns;
  header.ttl_ms = body.ttl_ms;
  header.lease_ms = body.lease_ms;
  header.trace_id = body.trace_id;
  request.page_count = body.page_count;
  return true;
}

// Behind the fixed part, where its flags say so.
bool decode_trace(std::span<const std::byte> body, RequestHeader& header) noexcept {
  wire::TraceBody trace;
  if (body.size() < sizeof(wire::RequestBody) + sizeof trace) return false;
  std::memcpy(&trace, body.data() + sizeof(wire::RequestBody), sizeof trace);
  header.trace = {trace.trace_high, trace.trace_low};
  return header.trace.is_set() && header.trace_id != 0;
}

bool entry_fits(const wire::PageEntry& entry, ipc::Opcode opcode) noexcept {
  if (entry.key_bytes > ipc::kKeyBytesMax || entry.reserved != 0) return false;
  if (entry.payload_bytes == 0) return true;
  return opcode == ipc::Opcode::put && entry.payload_bytes == entry.slice_bytes;
}

}  // namespace

bool decode_request(std::span<const std::byte> body, DecodedRequest& request,
                    std::span<PageRequest> pages, std::span<std::uint32_t> inline_at) noexcept {
  wire::RequestBody fixed;
  if (body.size() < sizeof fixed) return false;
  std::memcpy(&fixed, body.data(), sizeof fixed);
  if (!decode_request_header(fixed, request)) return false;
  const bool is_traced = (fixed.flags & wire::kFlagTraced) != 0;
  request.header.trace = {};
  if (is_traced && !decode_trace(body, request.header)) return false;
  // All sums stay far below 2^32: counts and the lengths of keys and payloads are bounded.
  const std::uint64_t entries = std::uint64_t{fixed.page_count} * sizeof(wire::PageEntry);
  const std::uint64_t entries_from = fixed_bytes(is_traced);
  const std::uint64_t keys_from = entries_from + entries;
  const std::uint64_t payloads_from = keys_from + fixed.key_bytes;
  if (body.size() != payloads_from + fixed.payload_bytes) return false;

  std::uint64_t key_at = keys_from;
  std::uint64_t payload_at = payloads_from;
  for (std::size_t i = 0; i < fixed.page_count; ++i) {
    wire::PageEntry entry;
    // SAFETY: the body holds page_count entries, as was checked above.
    std::memcpy(&entry, body.data() + entries_from + i * sizeof entry, sizeof entry);
    if (!entry_fits(entry, request.header.opcode)) return false;
    if (entry.key_bytes > payloads_from - key_at) return false;
    if (entry.payload_bytes > body.size() - payload_at) return false;
    PageRequest& page = pages[i];
    page = {};
    page.hash = {entry.hash_low, entry.hash_high};
    page.group = entry.group;
    // SAFETY: key_at + key_bytes lies within the keys.
    page.key = reinterpret_cast<const char*>(body.data() + key_at);
    page.key_bytes = entry.key_bytes;
    page.depth = entry.depth;
    page.slice.length = entry.slice_bytes;
    page.object_offset = entry.object_offset;
    page.index = static_cast<std::uint16_t>(i);
    inline_at[i] = entry.payload_bytes == 0 ? 0 : static_cast<std::uint32_t>(payload_at);
    key_at += entry.key_bytes;
    payload_at += entry.payload_bytes;
  }
  if (request.header.is_moved) {
    for (PageRequest& page : pages.first(fixed.page_count)) {
      page.digest = std::exchange(page.object_offset, 0);
    }
  }
  return key_at == payloads_from && payload_at == body.size();
}

// ---- roster ----

void encode_roster(const LinkRoster& roster, std::byte* to) noexcept {
  wire::RosterBody body{};
  body.requester = roster.requester;
  body.statement = roster.statement;
  body.link = roster.link;
  body.count = roster.count;
  std::copy(roster.in_use().begin(), roster.in_use().end(), body.links);
  std::memcpy(to, &body, sizeof body);
}

bool decode_roster(const wire::RosterBody& body, LinkRoster& roster) noexcept {
  if (body.requester == 0 || body.reserved != 0) return false;
  if (body.count == 0 || body.count > wire::kRosterLinksMax) return false;
  roster = {body.requester, body.statement, body.link, body.count, {}};
  bool has_itself = false;
  for (std::uint32_t i = 0; i < wire::kRosterLinksMax; ++i) {
    if (i >= body.count && body.links[i] != 0) return false;
    if (i < body.count && body.links[i] >= body.statement) return false;
    has_itself |= i < body.count && body.links[i] == body.link;
    roster.links[i] = body.links[i];
  }
  return has_itself;
}

// ---- reply ----

void encode_reply(std::span<const PageReply> replies, std::byte* to) noexcept {
  for (const PageReply& reply : replies) {
    const wire::ReplyEntry entry{static_cast<std::int32_t>(reply.status), 0, reply.bytes};
    std::memcpy(to, &entry, sizeof entry);
    to += sizeof entry;
  }
}

bool decode_reply(std::span<const std::byte> body, std::span<PageReply> replies) noexcept {
  if (body.size() != replies.size() * sizeof(wire::ReplyEntry)) return false;
  const std::byte* from = body.data();
  for (PageReply& reply : replies) {
    wire::ReplyEntry entry;
    std::memcpy(&entry, from, sizeof entry);
    from += sizeof entry;
    if (!is_known_status(entry.status) || entry.reserved != 0) return false;
    reply = {static_cast<Status>(entry.status), entry.bytes};
  }
  return true;
}

}  // namespace simm::transport
