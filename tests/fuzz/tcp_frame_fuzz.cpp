// Both ends of the TCP transport against a peer that sends what the input says. The first byte
// chooses the end (1), whether the rest is bytes as they are or frames whose check words are right
// (2), and what a requester has asked for (4, 8). Whatever comes: no write outside slices and
// extents, every request ends exactly once, every move is reported, and the end can be used again.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/region_mover.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "daemon/transport/tcp/tcp_requester.h"
#include "daemon/transport/tcp/tcp_responder.h"
#include "simm/check.h"

namespace {

using namespace simm;
using namespace simm::transport;
using Input = std::span<const std::uint8_t>;

constexpr std::uint64_t kPage = 5000;
constexpr std::uint16_t kPages = 3;
constexpr Route kRoute{base::PeerId{1}, 0};

// A network with one connection: gives what the input says, then the end of the stream; takes all.
class ScriptedIo final : public SocketIo {
public:
  void script(std::vector<std::byte> bytes) {
    bytes_ = std::move(bytes);
    given_ = 0;
  }
  SocketIoKind kind() const noexcept override { return SocketIoKind::epoll; }
  bool open(IoSocket& socket) noexcept override {
    socket_ = &socket;
    return true;
  }
  void close(IoSocket&) noexcept override { socket_ = nullptr; }
  void receive(IoSocket& socket) noexcept override { socket.receiving = true; }
  void send(IoSocket& socket) noexcept override { socket.sending = true; }
  void cancel(IoSocket& socket) noexcept override {
    end_receive(socket, -ECANCELED);
    end_send(socket, -ECANCELED);
  }
  int poll() noexcept override {
    if (socket_ == nullptr) return 0;
    if (socket_->receiving) end_receive(*socket_, give(*socket_));
    if (socket_->sending) end_send(*socket_, taken(*socket_));
    return 1;
  }
  bool prepare_sleep() noexcept override { return true; }

private:
  static void list(IoSocket& socket) noexcept {
    if (!socket.base::ListLink<IoReadyTag>::linked()) socket.ready->push_back(socket);
  }
  static void end_receive(IoSocket& socket, std::int32_t result) noexcept {
    if (!std::exchange(socket.receiving, false)) return;
    socket.received = true;
    socket.receive_result = result;
    list(socket);
  }
  static void end_send(IoSocket& socket, std::int32_t result) noexcept {
    if (!std::exchange(socket.sending, false)) return;
    socket.sent = true;
    socket.send_result = result;
    list(socket);
  }
  std::int32_t give(const IoSocket& socket) noexcept {
    std::size_t given = 0;
    for (std::size_t i = 0; i < socket.receive_count; ++i) {
      const iovec& part = socket.receive_parts[i];
      const std::size_t now = std::min(part.iov_len, bytes_.size() - given_);
      if (now > 0) std::memcpy(part.iov_base, bytes_.data() + given_, now);
      given_ += now;
      given += now;
    }
    return static_cast<std::int32_t>(given);
  }
  // Every byte that is sent is read: ASan and the extents' bounds are asked about it.
  std::int32_t taken(const IoSocket& socket) noexcept {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < socket.send_count; ++i) {
      const iovec& part = socket.send_parts[i];
      checksum_ ^= base::payload_digest(part.iov_base, part.iov_len);
      bytes += part.iov_len;
    }
    return static_cast<std::int32_t>(bytes);
  }

  IoSocket* socket_ = nullptr;
  std::vector<std::byte> bytes_;
  std::size_t given_ = 0;
  std::uint64_t checksum_ = 0;
};

// Moves every page that is short enough, in extents of exactly its length, then answers.
struct FuzzServer final : ResponderEvents {
  struct Job {
    std::vector<std::vector<std::byte>> extents;
    std::vector<PageReply> replies;
    std::size_t moving = 0;
  };
  void on_request(Incoming& incoming) noexcept override {
    ++open;
    Job* const job = new Job;
    incoming.server_data = job;
    job->replies.resize(incoming.pages.size());
    job->extents.resize(incoming.pages.size());
    const bool is_put = incoming.header.opcode == ipc::Opcode::put;
    const bool moves = is_put || incoming.header.opcode == ipc::Opcode::get;
    for (std::size_t i = 0; moves && i < incoming.pages.size(); ++i) {
      const PageRequest& page = incoming.pages[i];
      if (page.slice.length > 2 * kPage) continue;
      job->extents[i].resize(page.slice.length);
      ++job->moving;
      const auto number = static_cast<std::uint16_t>(i);
      if (is_put) {
        incoming.responder->pull(incoming, number, job->extents[i]);
      } else {
        incoming.responder->push(incoming, number, job->extents[i], false);
      }
    }
    if (job->moving == 0) answer(incoming);
  }
  void on_moved(Incoming& incoming, std::uint16_t page, MoveResult result) noexcept override {
    Job& job = *static_cast<Job*>(incoming.server_data);
    if (result.status == Status::ok && incoming.header.opcode == ipc::Opcode::put) {
      const auto& extent = job.extents[page];
      SIMM_CHECK(base::payload_digest(extent.data(), extent.size()) == result.digest);
    }
    job.replies[page] = {result.status, job.extents[page].size()};
    job.extents[page] = {};
    if (--job.moving == 0) answer(incoming);
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming& incoming) noexcept override { forget(incoming); }
  void answer(Incoming& incoming) {
    const std::vector<PageReply> replies = static_cast<Job*>(incoming.server_data)->replies;
    forget(incoming);
    incoming.responder->reply(incoming, replies);
  }
  void forget(Incoming& incoming) {
    delete static_cast<Job*>(incoming.server_data);
    --open;
  }
  int open = 0;
};

struct FuzzEngine final : RequesterEvents {
  void on_reply(RequestToken, std::span<const PageReply> pages) noexcept override {
    for (const PageReply& page : pages) SIMM_CHECK(is_known_status(static_cast<int>(page.status)));
    ++ended;
  }
  void on_fenced(RequestToken, FenceCause) noexcept override { ++ended; }
  int ended = 0;
};

// A region between two guard areas: only the slices in its middle may change.
struct FuzzRegion {
  FuzzRegion() {
    void* const mapped =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region.base = static_cast<std::byte*>(mapped);
    region.length = kBytes;
  }
  void begin() const { std::fill_n(region.base, kBytes, kGuard); }
  void check() const {
    const std::byte* const from = region.base;
    SIMM_CHECK(std::all_of(from, from + kBefore, [](std::byte b) { return b == kGuard; }));
    SIMM_CHECK(std::all_of(from + kBefore + kPages * kPage, from + kBytes,
                           [](std::byte b) { return b == kGuard; }));
  }
  static constexpr std::uint64_t kBefore = 4096;
  static constexpr std::uint64_t kBytes = 2 * kBefore + kPages * kPage;
  static constexpr std::byte kGuard{0x6b};
  memory::Region region;
};

// Everything that is too slow to make for each input.
struct World {
  World() { memory::FaultGuard::install(); }
  static TcpRequesterConfig requester_config() {
    TcpRequesterConfig config;
    config.links_max = 1;
    config.credits = 2;
    return config;
  }
  static TcpResponderConfig responder_config() {
    TcpResponderConfig config;
    config.links_max = 1;
    config.credits = 2;
    return config;
  }
  base::ManualClock clock;
  RegionMover mover;
  ScriptedIo requester_io;
  ScriptedIo responder_io;
  FuzzRegion memory;
  FuzzServer server;
  FuzzEngine engine;
  OwnRoster own_roster{1};
  RequesterRosters requester_rosters{1};
  TcpLinkMailbox requester_mail{2};
  TcpLinkMailbox responder_mail{2};
  TcpRequester requester{requester_config(), clock,         requester_io, mover,
                         own_roster,         requester_mail};
  TcpResponder responder{responder_config(), clock, responder_io, requester_rosters,
                         responder_mail};
};

// A request as an honest requester writes it: its pages, opcode and lengths are the input's.
std::vector<std::byte> honest_request(std::uint8_t shape, std::uint64_t length) {
  const memory::Region none;
  std::array<PageRequest, kPages> pages;
  for (PageRequest& page : pages) {
    page.key = "key";
    page.key_bytes = 3;
    page.slice = {&none, 0, length};
  }
  RequestHeader header;
  header.opcode = static_cast<ipc::Opcode>(1 + (shape >> 1) % (ipc::kOpcodeCount - 1));
  if ((shape & 16) != 0) header.trace = {header.trace_id = shape, length};
  const auto asked = std::span<const PageRequest>(pages).first(1 + (shape >> 5) % kPages);
  const std::array<std::uint8_t, kPages> is_inline{};
  std::vector<std::byte> body(request_body_bytes(header, asked));
  encode_request(header, wire::kNoDeadline, asked, is_inline, body.data());
  return body;
}

// Small numbers, so that rosters speak of each other's links.
std::vector<std::byte> some_roster(Input input) {
  const auto at = [input](std::size_t i) { return i < input.size() ? input[i] % 8u : 0u; };
  LinkRoster roster;
  roster.requester = at(0) % 3;
  roster.statement = at(1) + 2;
  roster.link = at(2);
  roster.count = 1 + at(3) % 3;
  for (std::uint32_t i = 0; i < roster.count; ++i) roster.links[i] = at(4 + i);
  std::vector<std::byte> body(sizeof(wire::RosterBody));
  encode_roster(roster, body.data());
  return body;
}

// Frames out of the input: 14 bytes for a header, then as many as its body has. What must be right
// for a frame to be looked at is made right, most of the time.
std::vector<std::byte> frames(Input input, std::uint32_t use) {
  std::vector<std::byte> stream;
  while (input.size() >= 14) {
    wire::FrameHeader header = frame_header(wire::FrameKind::ping, 0, 0);
    header.kind = static_cast<std::uint8_t>(1 + input[0] % wire::kFrameKindMax);
    const auto kind = static_cast<wire::FrameKind>(header.kind);
    const bool is_roster = kind == wire::FrameKind::roster;
    const bool names_request =
        kind != wire::FrameKind::ping && kind != wire::FrameKind::pong && !is_roster;
    header.flags = kind == wire::FrameKind::data ? input[1] % 3 : 0;
    header.page = static_cast<std::uint16_t>(input[2] % (kPages + 2));
    header.slot = names_request ? input[3] % 3u : 0;
    header.use = names_request ? use + input[4] % 3u : 0;
    if (kind == wire::FrameKind::failed) header.status = -(input[5] | input[6] << 8);
    if (kind == wire::FrameKind::data) {
      header.offset = static_cast<std::uint64_t>(input[7] | input[8] << 8);
    }
    const std::size_t wanted = static_cast<std::size_t>(input[9] | input[10] << 8);
    const bool has_digest = input[11] % 8 != 0;
    const bool is_honest = kind == wire::FrameKind::request && input[12] % 2 == 0;
    const std::uint8_t shape = input[12];
    input = input.subspan(14);
    std::vector<std::byte> body;
    if (is_honest) {
      body = honest_request(shape, wanted);
    } else if (is_roster) {
      body = some_roster(input);
      input = input.subspan(std::min<std::size_t>(input.size(), 7));
    } else {
      // Of data, the length matters and the bytes do not.
      const bool is_long = kind == wire::FrameKind::data;
      body.resize(is_long ? wanted : std::min(wanted, input.size()));
      const std::size_t given = std::min(body.size(), input.size());
      std::copy_n(std::as_bytes(input).begin(), given, body.begin());
      input = input.subspan(given);
    }
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    if (has_digest && (names_request || is_roster)) {
      header.digest = base::payload_digest(body.data(), body.size());
    }
    const std::size_t at = stream.size();
    stream.resize(at + sizeof header);
    FrameSeal plain;
    seal_header(header, plain, stream.data() + at);
    stream.insert(stream.end(), body.begin(), body.end());
  }
  return stream;
}

std::vector<std::byte> script(Input input, bool is_framed, std::uint32_t use) {
  if (is_framed) return frames(input, use);
  const auto bytes = std::as_bytes(input);
  return {bytes.begin(), bytes.end()};
}

ipc::UniqueFd socket_stand_in() {
  return ipc::UniqueFd(::memfd_create("fuzz", MFD_CLOEXEC));
}

void fuzz_responder(World& world, Input input, bool is_framed) {
  world.responder_io.script(script(input, is_framed, 1));
  world.responder.connect(world.server);
  world.responder.add_link({socket_stand_in(), {7}, 0, 1});
  LinkLost lost;
  int turns = 0;
  while (!world.responder_mail.control_take_lost(lost)) {
    world.responder.do_work();
    SIMM_CHECK(++turns < 100'000);
  }
  SIMM_CHECK(world.server.open == 0);
}

void fuzz_requester(World& world, Input input, bool is_framed, ipc::Opcode opcode) {
  static std::uint32_t s_use = 0;  // of slot 0, which every post takes: each is its next
  std::array<PageRequest, kPages> pages;
  for (std::uint16_t i = 0; i < kPages; ++i) {
    pages[i].key = "key";
    pages[i].key_bytes = 3;
    const bool has_slice = opcode != ipc::Opcode::exists;
    pages[i].slice = {&world.memory.region, FuzzRegion::kBefore + i * kPage, has_slice ? kPage : 0};
  }
  Request request;
  request.header.opcode = opcode;
  request.pages = pages;
  world.memory.begin();
  world.engine.ended = 0;
  world.requester_io.script(script(input, is_framed, ++s_use));
  world.requester.connect(world.engine, nullptr);
  world.requester.add_link({socket_stand_in(), kRoute.peer, kRoute.shard, 1});
  SIMM_CHECK(world.requester.post(kRoute, 1, request) == Status::ok);
  LinkLost lost;
  int turns = 0;
  while (!world.requester_mail.control_take_lost(lost)) {
    world.requester.do_work();
    SIMM_CHECK(++turns < 100'000);
  }
  SIMM_CHECK(world.engine.ended == 1);
  world.memory.check();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  const Input input(data + 1, size - 1);
  const bool is_framed = (choice & 2) != 0;
  if ((choice & 1) == 0) {
    fuzz_responder(world, input, is_framed);
  } else {
    constexpr ipc::Opcode kOpcodes[] = {ipc::Opcode::get, ipc::Opcode::put, ipc::Opcode::exists,
                                        ipc::Opcode::get};
    fuzz_requester(world, input, is_framed, kOpcodes[choice >> 2 & 3]);
  }
  return 0;
}
