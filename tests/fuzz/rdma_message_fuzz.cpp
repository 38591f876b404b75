// Both ends of the RDMA transport under messages that no honest peer would send, on a queue pair
// that carries everything at once: no access outside of slices and extents (ASan, and guard areas),
// every request and every move is over in the end, and the end can be used again.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/manual_clock.h"
#include "daemon/memory/fault_guard.h"
#include "daemon/transport/rdma/message_codec.h"
#include "daemon/transport/rdma/rdma_requester.h"
#include "daemon/transport/rdma/rdma_responder.h"
#include "daemon/transport/region_mover.h"
#include "daemon/transport/request_codec.h"
#include "simm/check.h"

namespace {

using namespace simm;
using namespace simm::transport;
using Input = std::span<const std::uint8_t>;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kPage = 5000;
constexpr std::uint16_t kPages = 3;
constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::byte kPattern{0x3d};

// A part of a message that the peer sends. Sealed when it arrives: only then is it known how many
// parts the peer could have taken.
struct Part {
  wire::Envelope envelope{};
  Bytes body;
  std::uint32_t received_too_many = 0;
  bool is_raw = false;  // the body is all there is
};
using Script = std::deque<Part>;

// Carries everything at once, gives the script, then reports that the other end is gone. Every byte
// that is sent or written is read, every byte that is READ is written.
class ScriptedPort final : public RdmaPort {
public:
  class Pair final : public QueuePair {
  public:
    explicit Pair(ScriptedPort& port) : port_(port) { port_.pair_ = this; }
    ~Pair() override { destroy(); }
    const QueuePairAddress& address() const noexcept override { return address_; }
    Outcome connect(const QueuePairAddress&) override { return Done{}; }
    std::uint32_t reads_max() const noexcept override { return 1; }
    std::size_t post(std::span<const Work> works) noexcept override {
      for (const Work& work : works) port_.carry(work);
      return works.size();
    }
    bool post_receive(std::uint64_t id, const LocalPart& part) noexcept override {
      port_.receives_.push_back({id, part});
      return true;
    }
    void fail() noexcept override {}
    void destroy() noexcept override {
      if (port_.pair_ == this) port_.forget();
    }

  private:
    ScriptedPort& port_;
    const QueuePairAddress address_;
  };

  // Until script(), the peer says nothing.
  void hold() {
    is_held_ = true;
    sent_ = 0;
  }
  void script(Script script) {
    script_ = std::move(script);
    is_held_ = false;
  }
  Expected<std::unique_ptr<QueuePair>> make_queue_pair(const QueuePairConfig&) override {
    return std::unique_ptr<QueuePair>(std::make_unique<Pair>(*this));
  }
  std::size_t poll(std::span<Completion> completions) noexcept override {
    if (pair_ == nullptr) return 0;
    Completion& one = completions[0];
    if (!ended_.empty()) {
      one = ended_.front();
      ended_.pop_front();
      return 1;
    }
    if (receives_.empty() || is_held_) return 0;
    const Receive receive = receives_.front();
    receives_.pop_front();
    one = {pair_, receive.id, 0, WorkStatus::flushed, true};
    if (!script_.empty()) {
      one.bytes = give(receive.part);
      one.status = WorkStatus::ok;
    }
    return 1;
  }
  bool prepare_sleep() noexcept override { return true; }
  int event_descriptor() const noexcept override { return -1; }

private:
  struct Receive {
    std::uint64_t id = 0;
    LocalPart part;
  };
  void forget() noexcept {
    pair_ = nullptr;
    receives_.clear();
    ended_.clear();
  }
  void carry(const Work& work) noexcept {
    sent_ += work.kind == WorkKind::send ? 1 : 0;
    for (std::size_t i = 0; i < work.part_count; ++i) {
      const LocalPart& part = work.parts[i];
      if (work.kind == WorkKind::read) {
        std::memset(part.at, static_cast<int>(kPattern), part.bytes);
      } else {
        checksum_ ^= base::payload_digest(part.at, part.bytes);
      }
    }
    if (work.is_signaled) ended_.push_back({pair_, work.id, 0, WorkStatus::ok, false});
  }
  std::uint32_t give(const LocalPart& to) noexcept {
    Part part = std::move(script_.front());
    script_.pop_front();
    Bytes bytes = std::move(part.body);
    if (!part.is_raw) {
      part.envelope.received = sent_ + part.received_too_many;
      part.envelope.part_bytes = static_cast<std::uint32_t>(bytes.size());
      bytes.insert(bytes.begin(), sizeof part.envelope, std::byte{0});
      FrameSeal plain;
      seal_envelope(part.envelope, plain, bytes.data());
    }
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size(), to.bytes));
    if (count > 0) std::memcpy(to.at, bytes.data(), count);
    return count;
  }

  Pair* pair_ = nullptr;
  Script script_;
  bool is_held_ = false;
  std::deque<Receive> receives_;
  std::deque<Completion> ended_;
  std::uint32_t sent_ = 0;
  std::uint64_t checksum_ = 0;
};

// Memory has one name at both ends; nobody looks at it.
class FuzzKeys final : public MemoryKeys {
public:
  std::size_t local(std::uint16_t, std::byte* at, std::uint64_t bytes,
                    std::span<LocalPart, Work::kPartsMax> parts) const noexcept override {
    parts[0] = {at, static_cast<std::uint32_t>(bytes), 1};
    return 1;
  }
  std::size_t remote(
      std::uint16_t, const memory::Slice& slice,
      std::span<wire::RemoteTarget, wire::kTargetsOfPageMax> targets) const noexcept override {
    targets[0] = {slice.offset, slice.length, 1, 0};
    return 1;
  }
  KeysFound look(std::uint16_t, const memory::Slice&) const noexcept override {
    return KeysFound::all;
  }
};

// Moves every page that is short enough, in extents of exactly its length, then answers.
struct FuzzServer final : ResponderEvents {
  struct Job {
    std::vector<Bytes> extents;
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
        incoming.responder->push(incoming, number, job->extents[i], page.depth % 2 == 0);
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

struct FuzzRequester final : RequesterEvents {
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
  static RdmaRequesterConfig requester_config() {
    RdmaRequesterConfig config;
    config.links_max = 1;
    config.credits = 2;
    return config;
  }
  static RdmaResponderConfig responder_config() {
    RdmaResponderConfig config;
    config.links_max = 1;
    config.credits = 2;
    return config;
  }
  base::ManualClock clock;
  RegionMover mover;
  FuzzKeys keys;
  ScriptedPort requester_port;
  ScriptedPort responder_port;
  FuzzRegion memory;
  FuzzServer server;
  FuzzRequester engine;
  OwnRoster own_roster{1};
  RequesterRosters requester_rosters{1};
  RdmaLinkMailbox requester_mail{2};
  RdmaLinkMailbox responder_mail{2};
  RdmaRequester requester{requester_config(), clock,         {&requester_port}, keys, mover,
                          own_roster,         requester_mail};
  RdmaResponder responder{responder_config(), clock,         {&responder_port}, keys,
                          requester_rosters,  responder_mail};
};

// Takes bytes of the input; zeroes behind its end.
class Reader {
public:
  explicit Reader(Input input) : input_(input) {}
  [[nodiscard]] bool empty() const { return input_.empty(); }
  std::uint32_t byte() {
    if (input_.empty()) return 0;
    const std::uint8_t first = input_[0];
    input_ = input_.subspan(1);
    return first;
  }
  std::uint32_t word() {
    const std::uint32_t low = byte();
    return low | byte() << 8;
  }
  Bytes bytes(std::size_t count) {
    const auto some = std::as_bytes(input_.first(std::min(count, input_.size())));
    input_ = input_.subspan(some.size());
    return {some.begin(), some.end()};
  }

private:
  Input input_;
};

// A request as an honest requester writes it, but for what `twist` says: targets, then the rest.
Bytes some_request(Reader& in, wire::Envelope& envelope) {
  const std::uint32_t shape = in.byte();
  const std::uint32_t twist = in.byte();
  const std::uint64_t length = in.word();
  const memory::Region none;
  // More pages than two: requests of several parts.
  const std::size_t count = shape % 8 == 7 ? 200 : 1 + shape % kPages;
  const std::string key(shape % 8 == 7 ? 90 : 3, 'k');
  std::vector<PageRequest> pages(count);
  for (PageRequest& page : pages) {
    page.key = key.data();
    page.key_bytes = static_cast<std::uint32_t>(key.size());
    page.depth = twist;
    page.slice = {&none, 0, length};
  }
  RequestHeader header;
  header.opcode = static_cast<ipc::Opcode>(1 + (shape >> 3) % (ipc::kOpcodeCount - 1));
  if (twist % 2 == 1) header.trace = {header.trace_id = twist, length};
  const bool is_put = header.opcode == ipc::Opcode::put;
  const bool moves = length > 0 && (is_put || header.opcode == ipc::Opcode::get);
  const std::vector<std::uint8_t> is_inline(count, is_put && length < 3000 && shape % 8 != 7);
  const bool has_targets = moves && is_inline[0] == 0;
  std::vector<wire::RemoteTarget> targets;
  for (std::uint32_t i = 0; i < count && has_targets; ++i) {
    const std::uint64_t first = twist % 3 == 0 ? length / 2 : 0;
    if (first > 0) targets.push_back({i * kPage, first, 1, i});
    targets.push_back({i * kPage + first, length - first, 1, i});
  }
  if (twist > 200 && !targets.empty()) targets[twist % targets.size()].bytes += in.byte();
  if (twist > 180 && !targets.empty()) targets[twist % targets.size()].page ^= twist % 4;
  if (twist > 220 && !targets.empty()) targets[0].address = ~std::uint64_t{0} - in.byte();
  Bytes body(targets.size() * sizeof(wire::RemoteTarget));
  if (!body.empty()) std::memcpy(body.data(), targets.data(), body.size());
  Bytes rest(request_body_bytes(header, pages));
  encode_request(header, wire::kNoDeadline, pages, is_inline, rest.data());
  body.insert(body.end(), rest.begin(), rest.end());
  if (is_inline[0] != 0) body.insert(body.end(), count * length, kPattern);
  envelope.targets = static_cast<std::uint16_t>(targets.size());
  return body;
}

// Small numbers, so that rosters speak of each other's links.
Bytes some_roster(Reader& in) {
  LinkRoster roster;
  roster.requester = in.byte() % 4;
  roster.statement = in.byte() % 8u + 2;
  roster.link = in.byte() % 4;
  roster.count = 1 + in.byte() % 3;
  for (std::uint32_t i = 0; i < roster.count; ++i) roster.links[i] = (roster.link + i) % 8;
  Bytes body(sizeof(wire::RosterBody));
  encode_roster(roster, body.data());
  return body;
}

Bytes some_reply(Reader& in) {
  Bytes body;
  Bytes payloads;
  for (std::uint32_t pages = in.byte() % (kPages + 2); pages > 0; --pages) {
    const std::uint32_t how = in.byte();
    wire::PageAnswer answer{how % 4 == 3 ? -static_cast<std::int32_t>(how / 4) : 0, 0, in.word()};
    if (how % 4 == 1) answer.inline_bytes = static_cast<std::uint32_t>(answer.bytes);
    const std::size_t room = wire::kReplyMessageBytesMax - 200 - payloads.size();
    payloads.resize(payloads.size() + std::min<std::size_t>(answer.inline_bytes, room), kPattern);
    const auto bytes = std::as_bytes(std::span(&answer, 1));
    body.insert(body.end(), bytes.begin(), bytes.end());
  }
  body.insert(body.end(), payloads.begin(), payloads.end());
  return body;
}

Bytes some_stripe(Reader& in) {
  wire::StripeBody said{};
  const std::uint32_t how = in.byte();
  said.number = 1 + how % 4;
  said.first_offset = how >= 128 ? in.word() : 0;
  said.page_count = static_cast<std::uint16_t>(1 + (how >> 2) % 4);
  said.first_page = static_cast<std::uint16_t>((how >> 4) % 4);
  said.stripe = static_cast<std::uint8_t>(in.byte() % 3);
  said.stripe_count = 2;
  const auto bytes = std::as_bytes(std::span(&said, 1));
  return {bytes.begin(), bytes.end()};
}

// Messages out of the input, split as an honest peer splits them, most of the time.
Script messages(Reader in, std::uint32_t use) {
  Script script;
  while (!in.empty() && script.size() < 200) {
    const std::uint32_t how = in.byte();
    const auto kind = static_cast<wire::MessageKind>(1 + how % wire::kMessageKindMax);
    const bool names_request =
        kind == wire::MessageKind::request || kind == wire::MessageKind::cancel ||
        kind == wire::MessageKind::reply || kind == wire::MessageKind::stripe;
    const std::uint32_t name = in.byte();
    wire::Envelope envelope = make_envelope(kind, names_request ? name % 3 : 0,
                                            names_request ? use + (name >> 2) % 3 : 0);
    Bytes body;
    if (how >= 240) {
      body = in.bytes(in.word());
    } else if (kind == wire::MessageKind::request) {
      body = some_request(in, envelope);
    } else if (kind == wire::MessageKind::roster) {
      body = some_roster(in);
    } else if (kind == wire::MessageKind::reply) {
      body = some_reply(in);
    } else if (kind == wire::MessageKind::stripe) {
      body = some_stripe(in);
    }
    envelope.body_bytes = static_cast<std::uint32_t>(body.size());
    const std::uint32_t lie = how >= 224 ? in.byte() : 0;
    std::size_t from = 0;
    do {
      const std::size_t bytes = std::min<std::size_t>(wire::kPartBytesMax, body.size() - from);
      Part part;
      part.envelope = envelope;
      part.envelope.offset = static_cast<std::uint32_t>(from + (lie & 1) * (lie >> 4));
      part.received_too_many = (lie & 2) * (lie >> 4);
      part.body.assign(body.begin() + static_cast<std::ptrdiff_t>(from),
                       body.begin() + static_cast<std::ptrdiff_t>(from + bytes));
      script.push_back(std::move(part));
      from += bytes;
    } while (from < body.size());
  }
  return script;
}

Script make_script(Input input, bool is_framed, std::uint32_t use) {
  if (is_framed) return messages(Reader(input), use);
  Part raw;
  raw.is_raw = true;
  const auto bytes = std::as_bytes(input);
  raw.body.assign(bytes.begin(), bytes.end());
  Script script;
  script.push_back(std::move(raw));
  return script;
}

std::unique_ptr<RdmaLink> make_link(ScriptedPort& port) {
  struct FuzzRegistration final : Registration {};
  auto link = std::make_unique<RdmaLink>();
  link->memory = std::make_unique<std::byte[]>((kReceives + kSendBuffers) * kPartBufferBytes);
  link->registration = std::make_unique<FuzzRegistration>();
  link->queue_pair = port.make_queue_pair({}).value();
  link->peer = kRoute.peer;
  return link;
}

void fuzz_responder(World& world, Input input, bool is_framed) {
  world.responder_port.hold();
  world.responder_port.script(make_script(input, is_framed, 1));
  world.responder.connect(world.server);
  auto link = make_link(world.responder_port);
  SIMM_CHECK(world.responder_mail.control_add(link));
  int turns = 0;
  while (world.responder_mail.control_take_ended() == nullptr) {
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
  world.requester.connect(world.engine, nullptr);
  auto link = make_link(world.requester_port);
  link->was_heard = true;
  SIMM_CHECK(world.requester_mail.control_add(link));
  // The request is out before the first message comes.
  world.requester_port.hold();
  world.requester.do_work();
  SIMM_CHECK(world.requester.post(kRoute, 1, request) == Status::ok);
  world.requester.do_work();
  world.requester_port.script(make_script(input, is_framed, ++s_use));
  int turns = 0;
  while (world.requester_mail.control_take_ended() == nullptr) {
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
  const bool is_framed = (choice & 6) != 0;
  if ((choice & 1) == 0) {
    fuzz_responder(world, input, is_framed);
  } else {
    constexpr ipc::Opcode kOpcodes[] = {ipc::Opcode::get, ipc::Opcode::put, ipc::Opcode::exists,
                                        ipc::Opcode::get};
    fuzz_requester(world, input, is_framed, kOpcodes[choice >> 3 & 3]);
  }
  return 0;
}
