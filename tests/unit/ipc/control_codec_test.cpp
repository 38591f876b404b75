#include "ipc/control_codec.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ipc/admin_codec.h"

namespace control_codec_test {

using namespace simm::ipc;
using simm::Expected;
using simm::Status;

using Packet = std::vector<std::byte>;

const std::vector<ClientMessage>& client_messages() {
  static const std::vector<ClientMessage> all = {
      Hello{7, 3, "0.1.0", "sglang rank 3", 16, "10.0.0.1:30001"},
      Hello{},
      Mapped{},
      OpenNamespace{11, "llama-70b", true, true, true},
      RegisterRegion{12,
                     RegionRequestKind::gpu,
                     0x7f00'0000'0000,
                     100ull << 30,
                     4096,
                     true,
                     "pool",
                     {0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff},
                     128ull << 30},
      DeregisterRegion{13, make_region_handle(5, 9)},
      Goodbye{},
      GpuLend{14, {0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff}, 40ull << 30, 500},
      GpuReclaim{15, 7},
      FollowKeys{14, 1ull << 50, "llama-70b", 99, 7, true, true},
  };
  return all;
}

const std::vector<DaemonMessage>& daemon_messages() {
  static const std::vector<DaemonMessage> all = {
      Welcome{1, 2, "0.2.0", 99, "team-a", session_bytes(8), 8,
              SessionLimits{1u << 30, 1024, 4096, 5'000'000'000, 15'000, 60'000}},
      Opened{},
      Refused{Status::incompatible, "upgrade the client"},
      NamespaceReply{11, Status::no_space, 65535, "too many namespaces"},
      RegionReply{12, Status::ok, 0xffff0001, RegionRequestKind::adopted,
                  "anonymous shared mapping"},
      DeregisterReply{13, Status::invalid_state},
      Poisoned{PoisonReason::region_fault},
      LeaseReply{14, Status::out_of_memory, 7, "so much is not free"},
      KeyEventsReply{14,
                     Status::ok,
                     "why",
                     1ull << 50,
                     0xfeed,
                     105,
                     8,
                     3,
                     false,
                     true,
                     {{{1, 2}, 4096, KeyNewsKind::evicted}, {{0, 0}, 77, KeyNewsKind::gap}}},
  };
  return all;
}

std::vector<Packet> all_packets() {
  std::vector<Packet> packets;
  for (const auto& message : client_messages()) packets.push_back(encode(message).value());
  for (const auto& message : daemon_messages()) packets.push_back(encode(message).value());
  packets.push_back(encode(AdminRequest{1, "sessions", "--json", 4}).value());
  packets.push_back(encode(AdminReply{1, Status::ok, "{\n \"a\": 1\n}", 5}).value());
  return packets;
}

// Every decoder over the same bytes; they must return, with a value or an error.
std::size_t decode_all(std::span<const std::byte> packet) {
  std::size_t accepted = 0;
  accepted += decode_client_message(packet).has_value();
  accepted += decode_daemon_message(packet).has_value();
  accepted += decode_admin_request(packet).has_value();
  accepted += decode_admin_reply(packet).has_value();
  return accepted;
}

// Sets the 16-bit word at a byte offset: the packets of this file have one segment of 8 + n bytes,
// whose root pointer comes first, and whose union tag is the first data word's low half.
void set_tag(Packet& packet, std::uint16_t value) {
  std::memcpy(packet.data() + 16, &value, sizeof value);
}

}  // namespace control_codec_test

TEST_CASE("every control message survives the way through its codec") {
  using namespace control_codec_test;
  for (const ClientMessage& message : client_messages()) {
    Expected<Packet> packet = encode(message);
    REQUIRE(packet);
    Expected<ClientMessage> decoded = decode_client_message(*packet);
    REQUIRE(decoded);
    CHECK(*decoded == message);
  }
  for (const DaemonMessage& message : daemon_messages()) {
    Expected<Packet> packet = encode(message);
    REQUIRE(packet);
    Expected<DaemonMessage> decoded = decode_daemon_message(*packet);
    REQUIRE(decoded);
    CHECK(*decoded == message);
  }
}

TEST_CASE("every admin message survives the way through its codec") {
  using namespace control_codec_test;
  const AdminRequest request{1, "sessions", "{\"tenant\": \"a\"}", 17};
  const AdminReply reply{1, Status::not_found, std::string(kAdminPageBytesMax, 'x'), 18};
  CHECK(decode_admin_request(encode(request).value()).value() == request);
  CHECK(decode_admin_reply(encode(reply).value()).value() == reply);
  CHECK(encode(AdminReply{1, Status::ok, std::string(kAdminPageBytesMax + 1, 'x'), 0}).status() ==
        Status::invalid_argument);
}

TEST_CASE("limits of texts hold on the way out and on the way in") {
  using namespace control_codec_test;
  const std::string longest(kNameBytesMax, 'n');
  CHECK(encode(ClientMessage(OpenNamespace{1, longest, false, false})));
  CHECK(encode(ClientMessage(OpenNamespace{1, longest + "n", false, false})).status() ==
        Status::invalid_argument);

  // A command may be as long as a name; in the bytes it can be made longer than that.
  Packet packet = encode(AdminRequest{1, "c", std::string(2000, 'a'), 0}).value();
  CHECK(decode_admin_request(packet));
  CHECK(decode_client_message(packet).status() != Status::ok);

  const std::string reason(3 * kReasonBytesMax, 'r');
  Packet refused = encode(DaemonMessage(Refused{Status::timeout, reason})).value();
  const DaemonMessage decoded = decode_daemon_message(refused).value();
  CHECK(std::get<Refused>(decoded).reason == reason.substr(0, kReasonBytesMax));
}

TEST_CASE("control characters do not get through: they would forge lines of a log") {
  using namespace control_codec_test;
  for (const char* bad : {"two\nlines", "esc\x1b[2J", "del\x7f"}) {
    Packet hello = encode(ClientMessage(Hello{1, 0, "0.1", bad, 0, ""})).value();
    CHECK(decode_client_message(hello).status() == Status::invalid_argument);
  }
  // Our own reasons may quote an error text: it is cleaned instead.
  Packet refused = encode(DaemonMessage(Refused{Status::io_error, "a\nb"})).value();
  CHECK(std::get<Refused>(decode_daemon_message(refused).value()).reason == "a b");
}

TEST_CASE("values outside their set are refused, unknown statuses are read as incompatible") {
  using namespace control_codec_test;
  RegisterRegion region{1, static_cast<RegionRequestKind>(6), 0, 4096, 0, false, ""};
  CHECK(decode_client_message(encode(ClientMessage(region)).value()).status() ==
        Status::invalid_argument);
  region.kind = RegionRequestKind::shared;
  CHECK(decode_client_message(encode(ClientMessage(region)).value()));
  region.length = 0;
  CHECK_FALSE(decode_client_message(encode(ClientMessage(region)).value()));
  region.length = UINT64_MAX;
  region.address = 1;
  CHECK_FALSE(decode_client_message(encode(ClientMessage(region)).value()));
  region.address = 0;
  region.fd_offset = 1;
  CHECK_FALSE(decode_client_message(encode(ClientMessage(region)).value()));

  const DaemonMessage odd = Refused{static_cast<Status>(-77), "from the future"};
  const DaemonMessage decoded = decode_daemon_message(encode(odd).value()).value();
  CHECK(std::get<Refused>(decoded).status == Status::incompatible);
  CHECK(std::get<Refused>(decoded).reason == "from the future");
  CHECK_FALSE(decode_daemon_message(
      encode(DaemonMessage(Poisoned{static_cast<PoisonReason>(4711)})).value()));
}

TEST_CASE("a message kind of a newer version is incompatible, not malformed") {
  using namespace control_codec_test;
  Packet packet = encode(ClientMessage(Goodbye{})).value();
  REQUIRE(decode_client_message(packet));
  for (const std::uint16_t tag : {std::uint16_t{0}, std::uint16_t{10}, std::uint16_t{0xffff}}) {
    set_tag(packet, tag);
    CHECK(decode_client_message(packet).status() == Status::incompatible);
  }
}

TEST_CASE("truncated packets are errors in every decoder") {
  using namespace control_codec_test;
  for (const Packet& packet : all_packets()) {
    REQUIRE(decode_all(packet) >= 1);
    for (std::size_t bytes = 0; bytes < packet.size(); ++bytes) {
      // A shorter packet whose segment table still promises the whole can never be accepted.
      CHECK(decode_all(std::span(packet).first(bytes)) == 0);
    }
  }
  CHECK(decode_all(Packet(kControlMessageBytesMax + 8)) == 0);
}

TEST_CASE("a packet of pointers that multiply its size ends at the traversal limit") {
  using namespace control_codec_test;
  // A text of nearly the whole packet is within the limit once; the segment table is honest.
  Packet reply = encode(AdminReply{1, Status::ok, std::string(kAdminPageBytesMax, 'x'), 0}).value();
  CHECK(decode_admin_reply(reply));
  // Claim 512 segments in a packet that holds one.
  const std::uint32_t segments_minus_one = 511;
  std::memcpy(reply.data(), &segments_minus_one, sizeof segments_minus_one);
  CHECK(decode_all(reply) == 0);
}

TEST_CASE("garbage in, an answer out: random damage never throws, hangs or crashes") {
  using namespace control_codec_test;
  const char* const chosen = std::getenv("SIMM_SEED");
  const std::uint64_t seed = chosen ? std::strtoull(chosen, nullptr, 10) : std::random_device{}();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_ipc -tc='garbage in*'");
  std::mt19937_64 random(seed);
  const std::vector<Packet> packets = all_packets();
  std::size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Packet packet = packets[random() % packets.size()];
    const std::size_t flips = 1 + random() % 8;
    for (std::size_t i = 0; i < flips; ++i) {
      packet[random() % packet.size()] = static_cast<std::byte>(random());
    }
    accepted += decode_all(packet);
    Packet noise(8 * (1 + random() % 32));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    accepted += decode_all(noise);
  }
  CHECK(accepted < 4 * 40'000);
}
