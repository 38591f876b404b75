// Frames: what goes in comes out, and nothing else is let in.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/random.h"
#include "daemon/transport/tcp/frame_codec.h"

namespace frame_codec_test {

using namespace simm;
using namespace simm::transport;
using wire::FrameHeader;
using wire::FrameKind;

struct Message {
  std::vector<std::string> keys{"a", std::string(1024, 'k'), std::string("t\0o", 3)};
  std::vector<PageRequest> pages;
  std::vector<std::uint8_t> is_inline{0, 1, 0};
  RequestHeader header;
  std::vector<std::byte> body;

  explicit Message(base::TraceName trace = {}) {
    header.trace = trace;
    header.opcode = ipc::Opcode::put;
    header.put_mode = ipc::PutMode::replace;
    header.exact_size = header.ranged = header.shared_read = true;
    header.tenant = {1};
    header.name_space = {2};
    header.epoch = 3;
    header.ttl_ms = 4;
    header.lease_ms = 5;
    header.trace_id = 6;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      PageRequest page;
      page.hash = {10 + i, 20 + i};
      page.group = 30 + i;
      page.key = keys[i].data();
      page.key_bytes = static_cast<std::uint32_t>(keys[i].size());
      page.depth = static_cast<std::uint32_t>(i);
      page.slice.length = 100 + i;
      page.object_offset = 50 + i;
      pages.push_back(page);
    }
    body.resize(request_body_bytes(header, pages));
    encode_request(header, 999, pages, is_inline, body.data());
    body.resize(body.size() + pages[1].slice.length, std::byte{0x77});
  }
};

struct Decoded {
  DecodedRequest request;
  std::array<PageRequest, ipc::kPagesPerSubmissionMax> pages;
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax> inline_at;
  bool decode(std::span<const std::byte> body) {
    return decode_request(body, request, pages, inline_at);
  }
};

TEST_CASE("frames: a request comes out as it went in") {
  const Message message;
  Decoded decoded;
  REQUIRE(decoded.decode(message.body));
  const RequestHeader& header = decoded.request.header;
  CHECK(header.opcode == ipc::Opcode::put);
  CHECK(header.put_mode == ipc::PutMode::replace);
  CHECK(header.exact_size);
  CHECK(header.ranged);
  CHECK(header.shared_read);
  CHECK(header.tenant == base::TenantId{1});
  CHECK(header.name_space == base::NamespaceId{2});
  CHECK(header.epoch == 3);
  CHECK(header.ttl_ms == 4);
  CHECK(header.lease_ms == 5);
  CHECK(header.trace_id == 6);
  CHECK(header.deadline_ns == 999);
  REQUIRE(decoded.request.page_count == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const PageRequest& page = decoded.pages[i];
    CHECK(page.hash == message.pages[i].hash);
    CHECK(page.group == message.pages[i].group);
    CHECK(page.depth == message.pages[i].depth);
    CHECK(page.slice.length == message.pages[i].slice.length);
    CHECK(page.object_offset == message.pages[i].object_offset);
    CHECK(std::string(page.key, page.key_bytes) == message.keys[i]);
  }
  CHECK(decoded.inline_at[0] == 0);
  CHECK(decoded.inline_at[1] == message.body.size() - 101);
  CHECK(decoded.inline_at[2] == 0);
}

// The bytes of the previous release, and behind its fixed part the trace: nothing for those that
// are part of none.
TEST_CASE("frames: a request of a trace brings it, and any other one not a byte more") {
  const Message plain;
  CHECK(plain.body.size() == 64 + 3 * 56 + (1 + 1024 + 3) + 101);
  const Message traced({0x0af7651916cd43dd, 0x8448eb211c80319c});
  REQUIRE(traced.body.size() == plain.body.size() + 16);
  std::vector<std::byte> rest = traced.body;
  CHECK(rest[4] == (plain.body[4] | std::byte{16}));
  rest[4] = plain.body[4];
  const std::array<std::uint8_t, 16> trace = {0xdd, 0x43, 0xcd, 0x16, 0x19, 0x65, 0xf7, 0x0a,
                                              0x9c, 0x31, 0x80, 0x1c, 0x21, 0xeb, 0x48, 0x84};
  CHECK(std::memcmp(rest.data() + 64, trace.data(), trace.size()) == 0);
  rest.erase(rest.begin() + 64, rest.begin() + 80);
  CHECK(rest == plain.body);

  Decoded decoded;
  REQUIRE(decoded.decode(traced.body));
  CHECK(decoded.request.header.trace.high == 0x0af7651916cd43dd);
  CHECK(decoded.request.header.trace.low == 0x8448eb211c80319c);
  CHECK(std::string(decoded.pages[2].key, decoded.pages[2].key_bytes) == traced.keys[2]);
  CHECK(decoded.inline_at[1] == traced.body.size() - 101);
  REQUIRE(decoded.decode(plain.body));
  CHECK_FALSE(decoded.request.header.trace.is_set());
  // A flag without the bytes, bytes without the flag, no trace in it, no span it is part of.
  std::vector<std::byte> wrong = plain.body;
  wrong[4] |= std::byte{16};
  CHECK_FALSE(decoded.decode(wrong));
  wrong = traced.body;
  wrong[4] &= ~std::byte{16};
  CHECK_FALSE(decoded.decode(wrong));
  wrong = traced.body;
  std::fill_n(wrong.begin() + 64, 16, std::byte{0});
  CHECK_FALSE(decoded.decode(wrong));
  wrong = traced.body;
  std::fill_n(wrong.begin() + 56, 8, std::byte{0});
  CHECK_FALSE(decoded.decode(wrong));
}

TEST_CASE("frames: a put that is moved brings its digest, and what is told of it its names") {
  Message message;
  message.header.is_moved = true;
  for (std::size_t i = 0; i < 3; ++i) message.pages[i].digest = 900 + i;
  encode_request(message.header, 999, message.pages, message.is_inline, message.body.data());
  Decoded decoded;
  REQUIRE(decoded.decode(message.body));
  CHECK(decoded.request.header.is_moved);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(decoded.pages[i].digest == 900 + i);
    CHECK(decoded.pages[i].object_offset == 0);
  }
  // Of the others only an exists is: it tells of such objects.
  message.is_inline = {0, 0, 0};
  message.body.resize(request_body_bytes(message.header, message.pages));
  for (const ipc::Opcode opcode : {ipc::Opcode::exists, ipc::Opcode::get, ipc::Opcode::remove}) {
    message.header.opcode = opcode;
    for (PageRequest& page : message.pages) page.depth = 2;
    encode_request(message.header, 999, message.pages, message.is_inline, message.body.data());
    CHECK(decoded.decode(message.body) == (opcode == ipc::Opcode::exists));
    if (opcode != ipc::Opcode::exists) continue;
    CHECK(decoded.request.header.is_moved);
    CHECK(decoded.pages[1].digest == 901);
    CHECK(decoded.pages[1].depth == 2);
  }
}

TEST_CASE("frames: a request that is cut short, or too long, is none") {
  const Message message({1, 2});
  Decoded decoded;
  for (std::size_t bytes = 0; bytes < message.body.size(); ++bytes) {
    // A copy of its own: a read behind its end is seen by ASan.
    const std::vector<std::byte> cut(message.body.begin(),
                                     message.body.begin() + static_cast<std::ptrdiff_t>(bytes));
    CHECK_FALSE(decoded.decode(cut));
  }
  std::vector<std::byte> longer = message.body;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decoded.decode(longer));
}

TEST_CASE("frames: whatever a body says, what is decoded lies inside it") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_transport -tc='frames: whatever*'");
  base::SeededRandom random(seed);
  const Message plain;
  const Message traced({1, 2});
  Decoded decoded;
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Message& message = round % 2 == 0 ? plain : traced;
    std::vector<std::byte> body = message.body;
    // Mostly in the fixed part and the entries, where the lengths are.
    for (std::uint64_t i = random.below(3); i < 3; ++i) {
      body[random.below(random.one_in(8) ? body.size() : 230)] =
          static_cast<std::byte>(random.next());
    }
    if (!decoded.decode(body)) continue;
    ++accepted;
    const char* const first = reinterpret_cast<const char*>(body.data());
    for (std::size_t i = 0; i < decoded.request.page_count; ++i) {
      const PageRequest& page = decoded.pages[i];
      CHECK(page.key >= first);
      CHECK(page.key + page.key_bytes <= first + body.size());
      if (decoded.inline_at[i] == 0) continue;
      CHECK(decoded.inline_at[i] <= body.size());
      CHECK(page.slice.length <= body.size() - decoded.inline_at[i]);
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("frames: a header with any bit changed is none") {
  FrameHeader header = frame_header(FrameKind::data, 5, 6);
  header.page = 7;
  header.offset = 1 << 20;
  header.body_bytes = 4096;
  header.flags = wire::kFlagLast;
  header.digest = 0x1234;
  std::array<std::byte, sizeof header> bytes;
  FrameSeal plain;
  seal_header(header, plain, bytes.data());
  FrameHeader opened;
  REQUIRE(open_header(bytes.data(), plain, opened));
  CHECK(opened.slot == 5);
  CHECK(opened.use == 6);
  CHECK(opened.page == 7);
  CHECK(opened.offset == 1 << 20);
  CHECK(opened.digest == 0x1234);
  for (std::size_t bit = 0; bit < sizeof header * 8; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    CHECK_FALSE(open_header(changed.data(), plain, opened));
  }
}

bool opens(FrameHeader header) {
  std::array<std::byte, sizeof header> bytes;
  FrameSeal plain;
  seal_header(header, plain, bytes.data());
  FrameHeader opened;
  return open_header(bytes.data(), plain, opened);
}

TEST_CASE("frames: a field that a kind does not have closes the door") {
  const auto with = [](FrameKind kind, auto&& change) {
    const bool is_life =
        kind == FrameKind::ping || kind == FrameKind::pong || kind == FrameKind::roster;
    FrameHeader header = frame_header(kind, is_life ? 0 : 1, is_life ? 0 : 1);
    change(header);
    return opens(header);
  };
  CHECK(with(FrameKind::ping, [](FrameHeader&) {}));
  CHECK(with(FrameKind::cancel, [](FrameHeader&) {}));
  CHECK_FALSE(with(FrameKind::ping, [](FrameHeader& h) { h.body_bytes = 1; }));
  CHECK_FALSE(with(FrameKind::ping, [](FrameHeader& h) { h.slot = 1; }));
  CHECK_FALSE(with(FrameKind::cancel, [](FrameHeader& h) { h.use = 0; }));
  CHECK_FALSE(with(FrameKind::cancel, [](FrameHeader& h) { h.slot = wire::kSlotsMax; }));
  CHECK_FALSE(with(FrameKind::cancel, [](FrameHeader& h) { h.offset = 1; }));
  CHECK_FALSE(with(FrameKind::cancel, [](FrameHeader& h) { h.status = -1; }));
  CHECK_FALSE(with(FrameKind::failed, [](FrameHeader&) {}));  // failed, and ok
  CHECK_FALSE(with(FrameKind::failed, [](FrameHeader& h) { h.status = 17; }));
  CHECK(with(FrameKind::failed, [](FrameHeader& h) { h.status = -4008; }));
  CHECK_FALSE(with(FrameKind::data, [](FrameHeader&) {}));  // no bytes, and not the last
  CHECK_FALSE(with(FrameKind::data, [](FrameHeader& h) { h.body_bytes = (1 << 20) + 1; }));
  CHECK_FALSE(with(FrameKind::data, [](FrameHeader& h) { h.flags = 3; }));
  CHECK_FALSE(with(FrameKind::data, [](FrameHeader& h) {
    h.body_bytes = 1;
    h.page = ipc::kPagesPerSubmissionMax;
  }));
  CHECK_FALSE(with(FrameKind::pull, [](FrameHeader& h) { h.body_bytes = 3; }));
  CHECK_FALSE(with(FrameKind::pull, [](FrameHeader& h) { h.body_bytes = 2050; }));
  CHECK_FALSE(with(FrameKind::reply, [](FrameHeader& h) { h.body_bytes = 24; }));
  CHECK_FALSE(with(FrameKind::request, [](FrameHeader& h) { h.body_bytes = ~0u; }));
  CHECK_FALSE(with(static_cast<FrameKind>(0), [](FrameHeader&) {}));
  CHECK(with(FrameKind::roster, [](FrameHeader& h) { h.body_bytes = sizeof(wire::RosterBody); }));
  CHECK_FALSE(
      with(FrameKind::roster, [](FrameHeader& h) { h.body_bytes = sizeof(wire::RosterBody) - 1; }));
  CHECK_FALSE(with(FrameKind::roster, [](FrameHeader& h) {
    h.body_bytes = sizeof(wire::RosterBody);
    h.slot = 1;
  }));
  CHECK_FALSE(with(static_cast<FrameKind>(10), [](FrameHeader&) {}));
}

TEST_CASE("frames: replies and pulls are as long as their request, and say what exists") {
  const std::array<PageReply, 2> replies{PageReply{Status::ok, 7}, PageReply{Status::not_found, 0}};
  std::array<std::byte, 2 * sizeof(wire::ReplyEntry)> body;
  encode_reply(replies, body.data());
  std::array<PageReply, 3> out;
  REQUIRE(decode_reply(body, std::span(out).first(2)));
  CHECK(out[0].bytes == 7);
  CHECK(out[1].status == Status::not_found);
  CHECK_FALSE(decode_reply(body, out));
  CHECK_FALSE(decode_reply(body, std::span(out).first(1)));
  body[0] = std::byte{99};  // no status of ours
  CHECK_FALSE(decode_reply(body, std::span(out).first(2)));

  const std::array<std::uint16_t, 2> wanted{1, 4};
  std::array<std::uint16_t, 2> pages;
  const auto bytes = std::as_bytes(std::span(wanted));
  REQUIRE(decode_pull(bytes, 5, pages));
  CHECK(pages == wanted);
  CHECK_FALSE(decode_pull(bytes, 4, pages));
  CHECK_FALSE(decode_pull(bytes, 5, std::span(pages).first(1)));
}

}  // namespace frame_codec_test
