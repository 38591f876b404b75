#include "tests/conformance/transport_actors.h"

#include <algorithm>
#include <cstring>

#include "daemon/base/hash.h"

namespace conformance {

using simm::ipc::Opcode;

namespace {
constexpr std::byte kCanary{0xc4};

// Equal to itself one byte further on, and to the canary at its start: all canary.
bool is_canary(const std::byte* from, std::uint64_t length) {
  if (length == 0) return true;
  return from[0] == kCanary && std::memcmp(from, from + 1, length - 1) == 0;
}

}  // namespace

std::vector<TransportFactory>& transports() {
  static std::vector<TransportFactory> all;
  return all;
}

std::vector<TransportFactory> chosen_transports() {
  std::vector<TransportFactory> chosen;
  for (const TransportFactory& factory : transports()) {
    if (factory.name == kVerbsTransport) chosen.push_back(factory);
  }
  return chosen.empty() ? transports() : chosen;
}

std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t length) {
  // Random bytes repeat with a period that is no power of two, and each period begins with its
  // number: a few calls for a long object, and no two places look alike.
  constexpr std::uint64_t kPeriod = 509 * sizeof(std::uint64_t);
  std::vector<std::byte> bytes(length);
  simm::base::SeededRandom random(seed);
  for (std::uint64_t at = 0; at < std::min(length, kPeriod); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, std::min<std::uint64_t>(sizeof word, length - at));
  }
  for (std::uint64_t at = kPeriod; at < length; at += kPeriod) {
    std::memcpy(bytes.data() + at, bytes.data(), std::min(kPeriod, length - at));
    std::memcpy(bytes.data() + at, &at, std::min<std::uint64_t>(sizeof at, length - at));
  }
  return bytes;
}

void fill(TransportWorld& world, const Wish& wish, const std::vector<std::byte>& bytes) {
  REQUIRE(bytes.size() <= wish.length);
  std::memcpy(world.region().base + wish.offset, bytes.data(), bytes.size());
}

std::vector<std::byte> read(TransportWorld& world, const Wish& wish) {
  const std::byte* from = world.region().base + wish.offset;
  return {from, from + wish.length};
}

// ---- the server ----

bool Server::moving() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const auto& entry) { return entry.second->moves_open > 0; });
}

void Server::on_request(Incoming& incoming) noexcept {
  CHECK(Depth::downcalls == 0);
  CHECK(jobs_.count(&incoming) == 0);
  ++requests;
  auto& job = jobs_[&incoming];
  job = std::make_unique<Job>();
  job->serial = next_serial_++;
  incoming.server_data = job.get();
  headers.push_back(incoming.header);
  pages_seen.emplace_back(incoming.pages.begin(), incoming.pages.end());
  const std::size_t count = incoming.pages.size();
  job->opcode = incoming.header.opcode;
  job->extents.resize(count);
  job->moving.resize(count);
  job->replies.assign(count, {Status::cancelled, 0});
  if (!hold_requests) start(incoming, *job);
}

void Server::start(Incoming& incoming, Job& job) {
  job.started = true;
  for (std::size_t page = 0; page < incoming.pages.size(); ++page) {
    start_page(incoming, job, static_cast<std::uint16_t>(page));
  }
  answer_when_done(incoming, job);
}

void Server::start_page(Incoming& incoming, Job& job, std::uint16_t page) {
  const PageRequest& wanted = incoming.pages[page];
  const std::string key(wanted.key, wanted.key_bytes);
  const auto found = objects.find(key);
  PageReply& reply = job.replies[page];
  const Depth depth;
  if (job.opcode == Opcode::put) {
    job.extents[page].resize(wanted.slice.length);
    job.moving[page] = true;
    ++job.moves_open;
    incoming.responder->pull(incoming, page, job.extents[page]);
  } else if (found == objects.end()) {
    reply.status = Status::not_found;
  } else if (job.opcode == Opcode::get) {
    if (found->second.size() > wanted.slice.length) {
      reply.status = Status::size_mismatch;
      return;
    }
    job.extents[page] = found->second;
    job.moving[page] = true;
    ++job.moves_open;
    incoming.responder->push(incoming, page, job.extents[page], page % 2 == 0);
  } else {
    reply = {Status::ok, found->second.size()};
    if (job.opcode == Opcode::remove) objects.erase(found);
  }
}

void Server::on_moved(Incoming& incoming, std::uint16_t page, MoveResult result) noexcept {
  CHECK(Depth::downcalls == 0);
  REQUIRE(jobs_.count(&incoming) == 1);
  Job& job = *jobs_.at(&incoming);
  CHECK(incoming.server_data == &job);
  REQUIRE(page < job.moving.size());
  CHECK(job.moving[page]);  // exactly once for each move
  job.moving[page] = false;
  --job.moves_open;
  std::vector<std::byte>& extent = job.extents[page];
  const bool has_digest = job.opcode == Opcode::put || page % 2 == 0;
  if (result.status == Status::ok && has_digest) {
    CHECK(result.digest == simm::base::payload_digest(extent.data(), extent.size()));
  }
  job.replies[page] = {result.status, result.status == Status::ok ? extent.size() : 0};
  if (result.status == Status::ok && job.opcode == Opcode::put && !job.cancelled) {
    const PageRequest& wanted = incoming.pages[page];
    objects[std::string(wanted.key, wanted.key_bytes)] = extent;
  }
  // The memory may be used for something else from now on.
  std::fill(extent.begin(), extent.end(), kCanary);
  answer_when_done(incoming, job);
}

void Server::on_cancel(Incoming& incoming) noexcept {
  CHECK(Depth::downcalls == 0);
  ++cancels;
  REQUIRE(jobs_.count(&incoming) == 1);
  Job& job = *jobs_.at(&incoming);
  job.cancelled = true;
  job.started = true;
  answer_when_done(incoming, job);
}

void Server::on_aborted(Incoming& incoming) noexcept {
  CHECK(Depth::downcalls == 0);
  ++aborted;
  REQUIRE(jobs_.count(&incoming) == 1);
  CHECK(jobs_.at(&incoming)->moves_open == 0);
  jobs_.erase(&incoming);
}

void Server::answer_when_done(Incoming& incoming, Job& job) {
  if (!job.started || job.moves_open > 0 || (hold_replies && !job.cancelled)) return;
  const std::vector<PageReply> replies = job.replies;
  jobs_.erase(&incoming);
  ++replied;
  const Depth depth;
  incoming.responder->reply(incoming, replies);
}

void Server::release_requests() {
  hold_requests = false;
  std::vector<Incoming*> held;
  for (const auto& entry : jobs_) held.push_back(entry.first);
  for (Incoming* incoming : held) {
    Job& job = *jobs_.at(incoming);
    job.started ? answer_when_done(*incoming, job) : start(*incoming, job);
  }
}

void Server::release() {
  hold_replies = false;
  release_requests();
}

// ---- the requester ----

Status Requester::post(Opcode opcode, const std::vector<Wish>& wishes, RequestToken& token,
                       std::uint32_t credits_keep) {
  token = next_token_++;
  auto asked = std::make_unique<Asked>();
  asked->wishes = wishes;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const Wish& wish = wishes[i];
    asked->keys.push_back(std::make_unique<char[]>(wish.key.size()));
    std::copy(wish.key.begin(), wish.key.end(), asked->keys.back().get());
    PageRequest page;
    page.key = asked->keys.back().get();
    page.key_bytes = static_cast<std::uint32_t>(wish.key.size());
    page.hash = {token + i, ~token};
    page.group = 77 * i;
    page.depth = static_cast<std::uint32_t>(i);
    page.object_offset = i * 3;
    page.index = static_cast<std::uint16_t>(1023 - i);
    if (wish.length > 0) page.slice = {&world_.region(), wish.offset, wish.length};
    asked->pages.push_back(page);
  }
  asked->request.header = header;
  asked->request.header.opcode = opcode;
  asked->request.pages = asked->pages;
  Asked& kept = *asked;
  asked_[token] = std::move(asked);
  const Depth depth;
  kept.request.credits_keep = credits_keep;
  const Status status = world_.requester().post(world_.route(), token, kept.request);
  if (status != Status::ok) asked_.erase(token);
  return status;
}

RequestToken Requester::must_post(Opcode opcode, const std::vector<Wish>& wishes) {
  RequestToken token = 0;
  const Status status = post(opcode, wishes, token);
  REQUIRE(status == Status::ok);
  return token;
}

void Requester::cancel(RequestToken token) {
  const Depth depth;
  world_.requester().cancel(world_.route(), token);
}

void Requester::reset(RequestToken token) {
  if (asked_.count(token) == 1 && !is_over(token)) at(token).was_reset = true;
  const Depth depth;
  world_.requester().reset(world_.route(), token);
}

std::size_t Requester::open() const {
  return static_cast<std::size_t>(std::count_if(
      asked_.begin(), asked_.end(), [](const auto& entry) { return !entry.second->is_over; }));
}

void Requester::settle(int turns) {
  for (int i = 0; i < turns && open() > 0; ++i) {
    world_.requester_turn();
    world_.network_turn();
    world_.responder_turn();
  }
  REQUIRE(open() == 0);
  // What is still on its way must find nothing to touch.
  for (int i = 0; i < 20; ++i) {
    world_.requester_turn();
    world_.network_turn();
    world_.responder_turn();
  }
  check_canaries();
}

Requester::Asked* Requester::end(RequestToken token) {
  CHECK(Depth::downcalls == 0);
  REQUIRE(asked_.count(token) == 1);
  Asked& asked = at(token);
  CHECK_FALSE(asked.is_over);  // exactly one of reply and fence
  asked.is_over = true;
  return &asked;
}

void Requester::on_reply(RequestToken token, std::span<const PageReply> pages) noexcept {
  Asked& asked = *end(token);
  CHECK_FALSE(asked.was_reset);
  CHECK(pages.size() == asked.pages.size());
  asked.was_replied = true;
  asked.replies.assign(pages.begin(), pages.end());
  for (const Wish& wish : asked.wishes) asked.slices.push_back(read(world_, wish));
  refill(asked);
}

void Requester::on_fenced(RequestToken token, FenceCause cause) noexcept {
  Asked& asked = *end(token);
  asked.cause = cause;
  if (!world_.path_is_shared() && !was_dropped) CHECK(cause == FenceCause::reset);
  if (cause == FenceCause::reset) CHECK(asked.was_reset);
  refill(asked);
}

// The memory is the client's again: it writes at once, to slices, keys and pages alike.
void Requester::refill(Asked& asked) {
  for (const Wish& wish : asked.wishes) {
    std::memset(world_.region().base + wish.offset, static_cast<int>(kCanary), wish.length);
  }
  for (std::size_t i = 0; i < asked.keys.size(); ++i) {
    std::memset(asked.keys[i].get(), '!', asked.wishes[i].key.size());
  }
  std::fill(asked.pages.begin(), asked.pages.end(), PageRequest{});
}

void Requester::check_canaries() {
  for (const auto& entry : asked_) {
    if (!entry.second->is_over) continue;
    for (const Wish& wish : entry.second->wishes) {
      const bool intact = is_canary(world_.region().base + wish.offset, wish.length);
      CHECK_MESSAGE(intact, "a slice was touched after its request was over");
    }
  }
}

void Requester::forget() {
  check_canaries();
  std::erase_if(asked_, [](const auto& entry) { return entry.second->is_over; });
}

}  // namespace conformance
