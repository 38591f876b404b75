// Messages over RDMA: what is written is read back, and nothing else is taken for a message.
#include "daemon/transport/rdma/message_codec.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/rdma_peer.h"

namespace rdma_message_codec_test {

using namespace simm;
using namespace simm::transport;
using support::rdma_message;
using wire::Envelope;
using wire::MessageKind;
using Bytes = std::vector<std::byte>;

Envelope named(MessageKind kind) {
  const bool has_name = kind == MessageKind::request || kind == MessageKind::cancel ||
                        kind == MessageKind::reply || kind == MessageKind::stripe;
  return has_name ? make_envelope(kind, 5, 9) : make_envelope(kind, 0, 0);
}

// As long as its kind is at least.
Bytes body_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::request:
      return Bytes(sizeof(wire::RequestBody) + sizeof(wire::PageEntry) + 3, std::byte{1});
    case MessageKind::roster:
      return Bytes(sizeof(wire::RosterBody), std::byte{2});
    case MessageKind::reply:
      return Bytes(sizeof(wire::PageAnswer), std::byte{3});
    case MessageKind::stripe:
      return Bytes(sizeof(wire::StripeBody), std::byte{4});
    default:
      return {};
  }
}

bool opens(const Bytes& message) {
  Envelope envelope;
  FrameSeal plain;
  return open_envelope(message, plain, envelope);
}

constexpr MessageKind kKinds[] = {MessageKind::request, MessageKind::cancel, MessageKind::ping,
                                  MessageKind::roster,  MessageKind::reply,  MessageKind::pong,
                                  MessageKind::credit,  MessageKind::stripe};
static_assert(std::size(kKinds) == wire::kMessageKindMax);

TEST_CASE("rdma messages: every kind is read as it was written") {
  for (const MessageKind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    Envelope said = named(kind);
    said.received = 0xfffffffe;
    const Bytes body = body_of(kind);
    const Bytes message = rdma_message(said, body);
    Envelope heard;
    FrameSeal plain;
    REQUIRE(open_envelope(message, plain, heard));
    CHECK(heard.kind == static_cast<std::uint8_t>(kind));
    CHECK(heard.slot == said.slot);
    CHECK(heard.use == said.use);
    CHECK(heard.received == 0xfffffffe);
    CHECK(heard.body_bytes == body.size());
    CHECK(heard.part_bytes == body.size());
  }
}

TEST_CASE("rdma messages: cut anywhere, or one bit flipped anywhere, they are refused") {
  for (const MessageKind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const Bytes message = rdma_message(named(kind), body_of(kind));
    for (std::size_t length = 0; length < message.size(); ++length) {
      CAPTURE(length);
      CHECK_FALSE(opens(Bytes(message.begin(), message.begin() + static_cast<int>(length))));
    }
    Bytes longer = message;
    longer.push_back(std::byte{0});
    CHECK_FALSE(opens(longer));
    for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
      CAPTURE(bit);
      Bytes flipped = message;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      CHECK_FALSE(opens(flipped));
    }
  }
}

TEST_CASE("rdma messages: a field that its kind does not have is refused, sealed or not") {
  struct Wrong {
    MessageKind kind;
    std::function<void(Envelope&)> change;
  };
  std::vector<Wrong> wrongs;
  for (const MessageKind kind : kKinds) {
    wrongs.push_back({kind, [](auto& e) { e.magic ^= 1; }});
    wrongs.push_back({kind, [](auto& e) { e.reserved = 1; }});
    wrongs.push_back({kind, [](auto& e) { e.kind = 0; }});
    wrongs.push_back({kind, [](auto& e) { e.kind = wire::kMessageKindMax + 1; }});
    wrongs.push_back({kind, [](auto& e) { e.slot = wire::kRdmaSlotsMax; }});
    wrongs.push_back({kind, [](auto& e) { e.offset = e.body_bytes + 1; }});
    // Zero where there is a name, and something where there is none.
    wrongs.push_back({kind, [](auto& e) { e.use = e.use == 0 ? 1 : 0; }});
    wrongs.push_back({kind, [](auto& e) { e.offset = 1; }});
    wrongs.push_back({kind, [](auto& e) { e.body_bytes += wire::kRequestMessageBytesMax; }});
    if (kind != MessageKind::request) {
      wrongs.push_back({kind, [](auto& e) { e.targets = 1; }});
    }
    if (named(kind).use == 0) wrongs.push_back({kind, [](auto& e) { e.slot = 1; }});
  }
  wrongs.push_back({MessageKind::request, [](auto& e) { e.targets = wire::kTargetsMax + 1; }});
  wrongs.push_back({MessageKind::request, [](auto& e) { e.targets = 3; }});  // no room for a body
  for (const Wrong& wrong : wrongs) {
    CAPTURE(&wrong - wrongs.data());
    CAPTURE(static_cast<int>(wrong.kind));
    const Bytes body = body_of(wrong.kind);
    Envelope envelope = named(wrong.kind);
    envelope.body_bytes = static_cast<std::uint32_t>(body.size());
    wrong.change(envelope);
    CHECK_FALSE(opens(rdma_message(envelope, body)));
  }
}

TEST_CASE("rdma messages: what no request of ours is a stripe of") {
  const wire::StripeBody good{9, 65536, 1, 2, 1, 2, 0};
  const auto decodes = [](const wire::StripeBody& said) {
    wire::StripeBody heard{};
    return decode_stripe(std::as_bytes(std::span(&said, 1)), heard) &&
           std::memcmp(&said, &heard, sizeof said) == 0;
  };
  CHECK(decodes(good));
  const std::function<void(wire::StripeBody&)> wrongs[] = {
      [](auto& b) { b.number = 0; },        [](auto& b) { b.first_page = 2; },
      [](auto& b) { b.page_count = 0; },    [](auto& b) { b.page_count = kStripedPagesMax + 1; },
      [](auto& b) { b.stripe = 2; },        [](auto& b) { b.stripe_count = 1, b.stripe = 0; },
      [](auto& b) { b.stripe_count = 17; }, [](auto& b) { b.reserved = 1; },
  };
  for (const auto& change : wrongs) {
    CAPTURE(&change - wrongs);
    wire::StripeBody wrong = good;
    change(wrong);
    CHECK_FALSE(decodes(wrong));
  }
}

TEST_CASE("rdma messages: lengths of bodies have bounds by kind") {
  struct Length {
    MessageKind kind;
    std::size_t bytes;
    bool is_fine;
  };
  const Length lengths[] = {
      {MessageKind::request, sizeof(wire::RequestBody), false},
      {MessageKind::request, sizeof(wire::RequestBody) + 1, true},
      {MessageKind::cancel, 1, false},
      {MessageKind::ping, 1, false},
      {MessageKind::pong, 8, false},
      {MessageKind::ping, wire::kPartBytesMax, true},
      {MessageKind::pong, wire::kPartBytesMax, true},
      {MessageKind::ping, wire::kPartBytesMax - 1, false},
      {MessageKind::credit, 1, false},
      {MessageKind::roster, sizeof(wire::RosterBody) - 1, false},
      {MessageKind::roster, sizeof(wire::RosterBody) + 1, false},
      {MessageKind::stripe, sizeof(wire::StripeBody) - 1, false},
      {MessageKind::stripe, sizeof(wire::StripeBody) + 1, false},
      {MessageKind::reply, sizeof(wire::PageAnswer) - 1, false},
      {MessageKind::reply, 0, false},
      {MessageKind::reply, wire::kPartBytesMax, true},
      {MessageKind::request, wire::kPartBytesMax, true},
      {MessageKind::request, wire::kPartBytesMax + 1, false},  // longer than a part may be
  };
  for (const Length& length : lengths) {
    CAPTURE(static_cast<int>(length.kind));
    CAPTURE(length.bytes);
    // A message of one part; the longest that is not refused is a full part.
    Envelope envelope = named(length.kind);
    envelope.body_bytes = static_cast<std::uint32_t>(length.bytes);
    Bytes message = rdma_message(envelope, Bytes(length.bytes));
    if (message.size() > kPartBufferBytes) message.resize(kPartBufferBytes);
    CHECK(opens(message) == length.is_fine);
  }
  Envelope longest = named(MessageKind::reply);
  longest.body_bytes = wire::kReplyMessageBytesMax;
  CHECK(opens(rdma_message(longest, Bytes(wire::kPartBytesMax))));
  ++longest.body_bytes;
  CHECK_FALSE(opens(rdma_message(longest, Bytes(wire::kPartBytesMax))));
}

TEST_CASE("rdma messages: every part but the last is full") {
  constexpr std::uint32_t kBody = 2 * wire::kPartBytesMax + 100;
  const auto part = [](std::uint32_t offset, std::size_t bytes) {
    Envelope envelope = named(MessageKind::request);
    envelope.body_bytes = kBody;
    envelope.offset = offset;
    return opens(rdma_message(envelope, Bytes(bytes)));
  };
  CHECK(part(0, wire::kPartBytesMax));
  CHECK(part(wire::kPartBytesMax, wire::kPartBytesMax));
  CHECK(part(2 * wire::kPartBytesMax, 100));
  CHECK_FALSE(part(0, 100));
  CHECK_FALSE(part(0, 0));
  CHECK_FALSE(part(wire::kPartBytesMax, wire::kPartBytesMax - 1));
  CHECK_FALSE(part(2 * wire::kPartBytesMax, 101));
  CHECK_FALSE(part(2 * wire::kPartBytesMax, 99));
}

// ---- targets ----

struct Targets {
  ipc::Opcode opcode = ipc::Opcode::get;
  std::vector<std::uint64_t> pages;         // lengths
  std::vector<std::uint32_t> inline_at;     // empty: none
  std::vector<wire::RemoteTarget> targets;  // {address, bytes, key, page}
};

bool decodes(const Targets& said, std::vector<PageTargets>* of_page = nullptr) {
  std::vector<PageRequest> pages(said.pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i].slice.length = said.pages[i];
  std::vector<std::uint32_t> inline_at = said.inline_at;
  inline_at.resize(pages.size());
  Bytes bytes(said.targets.size() * sizeof(wire::RemoteTarget));
  if (!bytes.empty()) std::memcpy(bytes.data(), said.targets.data(), bytes.size());
  std::vector<wire::RemoteTarget> heard(8);
  std::vector<PageTargets> found(pages.size());
  if (!decode_targets(bytes, said.opcode, pages, inline_at, heard, found)) return false;
  for (std::size_t i = 0; i < said.targets.size(); ++i) {
    CHECK(std::memcmp(&heard[i], &said.targets[i], sizeof heard[i]) == 0);
  }
  if (of_page != nullptr) *of_page = found;
  return true;
}

TEST_CASE("rdma targets: one page may have two, some have none") {
  std::vector<PageTargets> of_page;
  const Targets all{ipc::Opcode::get,
                    {100, 0, 200, 50},
                    {},
                    {{1, 100, 7, 0}, {2, 150, 8, 2}, {3, 50, 9, 2}, {4, 50, 7, 3}}};
  REQUIRE(decodes(all, &of_page));
  CHECK(of_page[0].first == 0);
  CHECK(of_page[0].count == 1);
  CHECK(of_page[1].count == 0);
  CHECK(of_page[2].first == 1);
  CHECK(of_page[2].count == 2);
  CHECK(of_page[3].first == 3);
  CHECK(of_page[3].count == 1);
  // Short pages of a put travel inside; one that could not be read has nothing at all.
  REQUIRE(decodes({ipc::Opcode::put, {100, 200, 300}, {64, 0, 0}, {{2, 300, 8, 2}}}, &of_page));
  CHECK(of_page[0].count == 0);
  CHECK(of_page[1].count == 0);
  CHECK(of_page[2].count == 1);
  CHECK(decodes({ipc::Opcode::put, {100}, {}, {}}));
  CHECK(decodes({ipc::Opcode::get, {9}, {}, {{~std::uint64_t{0} - 8, 9, 7, 0}}}));  // the last
  CHECK(decodes({ipc::Opcode::exists, {0, 0}, {}, {}}));
}

TEST_CASE("rdma targets: what no asker says") {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  const Targets wrongs[] = {
      {ipc::Opcode::get, {100}, {}, {}},                                           // none
      {ipc::Opcode::get, {100}, {}, {{1, 99, 7, 0}}},                              // too short
      {ipc::Opcode::get, {100}, {}, {{1, 101, 7, 0}}},                             // too long
      {ipc::Opcode::get, {100}, {}, {{1, kHuge, 7, 0}, {1, 101, 7, 0}}},           // wraps to 100
      {ipc::Opcode::get, {100}, {}, {{1, 50, 7, 0}, {1, 51, 7, 0}}},               // too long
      {ipc::Opcode::get, {100}, {}, {{1, 0, 7, 0}, {1, 100, 7, 0}}},               // an empty one
      {ipc::Opcode::get, {100}, {}, {{1, 9, 7, 0}, {1, 9, 7, 0}, {1, 82, 7, 0}}},  // three
      {ipc::Opcode::get, {100}, {}, {{1, 100, 7, 1}}},                             // of no page
      {ipc::Opcode::get, {100}, {}, {{1, 100, 7, 0}, {1, 100, 7, 0}}},             // twice
      {ipc::Opcode::get, {9, 9}, {}, {{1, 9, 7, 1}, {1, 9, 7, 0}}},                // not in order
      {ipc::Opcode::get, {9, 9}, {}, {{1, 9, 7, 0}}},                // one page without
      {ipc::Opcode::get, {0}, {}, {{1, 9, 7, 0}}},                   // has no slice
      {ipc::Opcode::put, {9}, {64}, {{1, 9, 7, 0}}},                 // is inline
      {ipc::Opcode::put, {9}, {}, {{1, 8, 7, 0}}},                   // too short
      {ipc::Opcode::put, {9, 9}, {}, {{1, 9, 7, 1}, {1, 9, 7, 0}}},  // not in order
      {ipc::Opcode::get, {9}, {}, {{kHuge - 7, 9, 7, 0}}},  // beyond the end of all addresses
      {ipc::Opcode::exists, {9}, {}, {{1, 9, 7, 0}}},       // moves nothing
      {ipc::Opcode::get,
       std::vector<std::uint64_t>(9, 1),
       {},
       std::vector<wire::RemoteTarget>(9, {1, 1, 7, 0})},  // more than there is room for
  };
  for (const Targets& wrong : wrongs) {
    CAPTURE(&wrong - wrongs);
    CHECK_FALSE(decodes(wrong));
  }
  const std::vector<PageRequest> pages(1);
  const std::vector<std::uint32_t> inline_at(1);
  std::vector<wire::RemoteTarget> heard(8);
  std::vector<PageTargets> of_page(1);
  for (std::size_t bytes = 1; bytes < sizeof(wire::RemoteTarget); ++bytes) {
    CHECK_FALSE(decode_targets(Bytes(bytes), ipc::Opcode::put, pages, inline_at, heard, of_page));
  }
}

// ---- answers ----

constexpr std::uint32_t kFirstPayload = 10;
constexpr std::uint32_t kSecondPayload = 3;

// Two inline pages, one that was written, one that is missing, and one inline that failed.
Bytes answers() {
  const PageReply replies[] = {{Status::ok, kFirstPayload},
                               {Status::ok, 5000},
                               {Status::not_found, 0},
                               {Status::ok, kSecondPayload},
                               {Status::transfer_failed, 0}};
  Bytes payloads(20);
  for (std::size_t i = 0; i < payloads.size(); ++i) payloads[i] = static_cast<std::byte>(i);
  // In any order.
  const std::uint32_t inline_at[] = {1 + kSecondPayload, 0, 0, 1, 14};
  Bytes body(wire::kReplyMessageBytesMax);
  body.resize(encode_answers(replies, inline_at, payloads.data(), body.data()));
  return body;
}

bool decodes(const Bytes& body, std::size_t pages = 5) {
  std::vector<PageReply> replies(pages);
  std::vector<std::uint32_t> inline_at(pages);
  return decode_answers(body, replies, inline_at);
}

TEST_CASE("rdma answers: statuses, lengths and payloads come back") {
  const Bytes body = answers();
  CHECK(body.size() == 5 * sizeof(wire::PageAnswer) + kFirstPayload + kSecondPayload);
  std::array<PageReply, 5> replies{};
  std::array<std::uint32_t, 5> inline_at{};
  REQUIRE(decode_answers(body, replies, inline_at));
  CHECK(replies[0].bytes == kFirstPayload);
  CHECK(replies[1].bytes == 5000);
  CHECK(replies[2].status == Status::not_found);
  CHECK(replies[4].status == Status::transfer_failed);
  CHECK(inline_at[1] == 0);
  CHECK(inline_at[2] == 0);
  CHECK(inline_at[4] == 0);
  REQUIRE(inline_at[0] == 5 * sizeof(wire::PageAnswer));
  REQUIRE(inline_at[3] == inline_at[0] + kFirstPayload);
  CHECK(body[inline_at[0]] == std::byte{kSecondPayload});
  CHECK(body[inline_at[3]] == std::byte{0});
}

TEST_CASE("rdma answers: what no server says") {
  const Bytes body = answers();
  for (std::size_t length = 0; length < body.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decodes(Bytes(body.begin(), body.begin() + static_cast<int>(length))));
  }
  Bytes longer = body;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decodes(longer));
  CHECK_FALSE(decodes(body, 4));
  CHECK_FALSE(decodes(body, 6));
  struct Wrong {
    std::size_t page;
    wire::PageAnswer answer;
  };
  const auto failed = static_cast<std::int32_t>(Status::not_found);
  const Wrong wrongs[] = {
      {1, {1, 0, 5000}},                                      // no status
      {1, {-4711, 0, 5000}},                                  // likewise
      {0, {0, kFirstPayload, kFirstPayload + 1}},             // not all of it
      {0, {0, 0, kFirstPayload}},                             // its payload is nobody's
      {0, {failed, kFirstPayload, kFirstPayload}},            // failed, and has a payload
      {3, {0, kSecondPayload + 1, kSecondPayload + 1}},       // behind the end
      {3, {0, ~std::uint32_t{0}, ~std::uint32_t{0}}},         // far behind
      {0, {0, kFirstPayload, kFirstPayload + (1ull << 32)}},  // equal in 32 bits only
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(&wrong - wrongs);
    Bytes changed = body;
    std::memcpy(changed.data() + wrong.page * sizeof wrong.answer, &wrong.answer,
                sizeof wrong.answer);
    CHECK_FALSE(decodes(changed));
  }
}

}  // namespace rdma_message_codec_test
