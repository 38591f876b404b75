// What no peer of ours sends ends its link, and nothing else, however honest its queue pair is.
// Random parts repeat with SIMM_SEED=<seed>.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "daemon/base/random.h"
#include "daemon/transport/request_codec.h"
#include "tests/support/rdma_ends.h"
#include "tests/support/rdma_peer.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace rdma_garbage_test {

using namespace local_world;
using support::rdma_message;
using support::RdmaEnds;
using support::RdmaPeer;
using wire::Envelope;
using wire::MessageKind;
using Bytes = std::vector<std::byte>;
using Messages = std::vector<Bytes>;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kPage = 5000;
constexpr std::byte kUntouched{0x11};

// Messages as a peer would write them that we did not.
Bytes bare(MessageKind kind, std::uint32_t slot = 0, std::uint32_t use = 0) {
  return rdma_message(make_envelope(kind, slot, use));
}
Bytes roster(std::uint64_t requester = 7, std::uint64_t link = 1) {
  const LinkRoster said{requester, link + 1, link, 1, {link}};
  Bytes body(sizeof(wire::RosterBody));
  encode_roster(said, body.data());
  return rdma_message(make_envelope(MessageKind::roster, 0, 0), body);
}
Bytes request_body(ipc::Opcode opcode, const std::vector<wire::RemoteTarget>& targets,
                   std::uint32_t pages = 2) {
  const memory::Region none;
  const Ask ask(none, opcode, pages, opcode == ipc::Opcode::exists ? 0 : kPage);
  const std::vector<std::uint8_t> is_inline(pages);
  const std::size_t targets_bytes = targets.size() * sizeof(wire::RemoteTarget);
  Bytes body(targets_bytes + request_body_bytes(ask.request.header, ask.list));
  if (targets_bytes > 0) std::memcpy(body.data(), targets.data(), targets_bytes);
  encode_request(ask.request.header, wire::kNoDeadline, ask.list, is_inline,
                 body.data() + targets_bytes);
  return body;
}
Bytes request(ipc::Opcode opcode, const std::vector<wire::RemoteTarget>& targets,
              std::uint32_t slot = 0, std::uint32_t use = 1) {
  Envelope envelope = make_envelope(MessageKind::request, slot, use);
  envelope.targets = static_cast<std::uint16_t>(targets.size());
  return rdma_message(envelope, request_body(opcode, targets));
}
Bytes stripe(const wire::StripeBody& said, std::uint32_t slot = 0, std::uint32_t use = 1) {
  Bytes body(sizeof said);
  std::memcpy(body.data(), &said, sizeof said);
  return rdma_message(make_envelope(MessageKind::stripe, slot, use), body);
}
Bytes reply(const std::vector<PageReply>& pages, std::uint32_t slot = 0, std::uint32_t use = 1,
            bool is_inline = false) {
  const std::vector<std::uint32_t> inline_at(pages.size(), is_inline ? 1 : 0);
  const Bytes payloads(kInlineMessageBytes, std::byte{0x22});
  Bytes body(wire::kReplyMessageBytesMax);
  body.resize(encode_answers(pages, inline_at, payloads.data(), body.data()));
  return rdma_message(make_envelope(MessageKind::reply, slot, use), body);
}
Bytes cut(Bytes bytes, std::size_t length) {
  bytes.resize(length);
  return bytes;
}

// Pulls or pushes every page of a request, and answers it when all have moved; or holds it.
struct Server final : ResponderEvents {
  void on_request(Incoming& incoming) noexcept override {
    ++requests;
    open += incoming.pages.size();
    for (std::uint16_t page = 0; page < incoming.pages.size(); ++page) {
      const std::uint64_t length = std::min(incoming.pages[page].slice.length, kPage);
      const auto room = std::span(extents).subspan(page % 2 * kPage, length);
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, page, room);
      } else {
        incoming.responder->push(incoming, page, room, false);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t, MoveResult result) noexcept override {
    stored += result.status == Status::ok ? 1 : 0;
    if (--open > 0 || holds) return;
    std::vector<PageReply> replies;
    for (const PageRequest& page : incoming.pages) {
      replies.push_back({result.status, page.slice.length});
    }
    incoming.responder->reply(incoming, replies);
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming&) noexcept override { ++aborted; }
  Bytes extents = Bytes(2 * kPage);
  std::size_t open = 0;
  bool holds = false;
  int requests = 0;
  int stored = 0;
  int aborted = 0;
};

// Both ends, each with a peer that the test plays.
struct Scene {
  Scene() : memory(4 * kPage) {
    std::fill_n(memory.region.base, 4 * kPage, kUntouched);
    ends.requester.connect(answers, nullptr);
    ends.responder.connect(server);
    ends.keys.add(memory.region);
  }
  wire::RemoteTarget target(std::uint32_t page) {
    std::array<wire::RemoteTarget, wire::kTargetsOfPageMax> found{};
    REQUIRE(ends.keys.remote(0, {&memory.region, page * kPage, kPage}, found) == 1);
    found[0].page = page;
    return found[0];
  }
  // What became of the link on which a responder was sent that; dropped: the test had to end it.
  LinkLoss serve(const Messages& messages) {
    RdmaPeer peer(*ends.asking_devices[0], true);
    auto link = make_rdma_link(*ends.serving_device, *ends.serving_port, false).value();
    return outcome(std::move(link), ends.responder_mail, peer, messages);
  }
  // The same for a requester that has asked for two pages, whose answer is of slot 0, use 1.
  LinkLoss answer(ipc::Opcode opcode, const Messages& messages) {
    RdmaPeer peer(*ends.serving_device, false);
    auto link = make_rdma_link(*ends.asking_devices[0], *ends.asking_ports[0], true).value();
    link->peer = kRoute.peer;
    link->was_heard = true;
    const std::uint64_t length = opcode == ipc::Opcode::exists ? 0 : kPage;
    asks.push_back(std::make_unique<Ask>(memory.region, opcode, 2, length));
    asked = asks.back().get();
    const LinkLoss loss = outcome(std::move(link), ends.requester_mail, peer, messages);
    asked = nullptr;
    return loss;
  }
  LinkLoss outcome(std::unique_ptr<RdmaLink> link, RdmaLinkMailbox& mail, RdmaPeer& peer,
                   const Messages& messages) {
    peer.connect(*link->queue_pair);
    link->link = ++name;
    REQUIRE(mail.control_add(link));
    ends.turn();
    if (asked != nullptr) {
      REQUIRE(ends.requester.post(kRoute, 1, asked->request) == Status::ok);
      for (int i = 0; i < 20; ++i) ends.turn();
    }
    for (const Bytes& message : messages) peer.send(message);
    std::unique_ptr<RdmaLink> ended;
    for (int i = 0; i < 200 && ended == nullptr; ++i) {
      ends.turn();
      for (const Bytes& heard : peer.take()) last_heard = heard;
      ended = mail.control_take_ended();
    }
    if (ended == nullptr) {
      ends.responder.drop_all();
      REQUIRE(ends.requester_mail.control_drop_peer(kRoute.peer));
      ends.turn();
      ended = mail.control_take_ended();
    }
    REQUIRE(ended != nullptr);
    CHECK(ended->link == name);
    return ended->loss;
  }

  std::vector<std::unique_ptr<Ask>> asks;
  const Ask* asked = nullptr;
  Answers answers;
  Server server;
  RdmaEnds ends;
  TestRegion memory;
  std::uint64_t name = 0;
  Bytes last_heard;
};

std::uint64_t seed() {
  const char* text = std::getenv("SIMM_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

TEST_CASE("rdma garbage: what an honest peer says is taken") {
  Scene scene;
  const std::vector<wire::RemoteTarget> targets{scene.target(0), scene.target(1)};
  const Bytes get = request(ipc::Opcode::get, targets);
  CHECK(scene.serve({roster(), get}) == LinkLoss::dropped);
  CHECK(scene.server.stored == 2);
  const Bytes put = request(ipc::Opcode::put, targets, 3, 9);
  CHECK(scene.serve({roster(8), put, bare(MessageKind::ping), bare(MessageKind::cancel, 3, 9),
                     bare(MessageKind::credit)}) == LinkLoss::dropped);
  CHECK(scene.server.requests == 2);
  CHECK(scene.answer(ipc::Opcode::get, {reply({{Status::ok, 100}, {Status::not_found, 0}})}) ==
        LinkLoss::dropped);
  CHECK(scene.answers.replied.size() == 1);
}

TEST_CASE("rdma garbage: a server ends a link on what is no message, or not for it, or not now") {
  Scene scene;
  const std::vector<wire::RemoteTarget> targets{scene.target(0), scene.target(1)};
  const Bytes get = request(ipc::Opcode::get, targets);
  const Bytes again = request(ipc::Opcode::get, targets, 0, 2);
  Envelope gap = make_envelope(MessageKind::request, 0, 1);
  gap.body_bytes = 3 * wire::kPartBytesMax;
  gap.offset = wire::kPartBytesMax;
  Envelope first = gap;
  first.offset = 0;
  Envelope other_use = gap;
  other_use.use = 2;
  Envelope other_length = gap;
  other_length.body_bytes -= 1;
  Envelope other_targets = gap;
  other_targets.targets = 1;
  const Bytes full(wire::kPartBytesMax);
  Bytes long_page = request_body(ipc::Opcode::get, targets);
  long_page[2 * sizeof(wire::RemoteTarget) + sizeof(wire::RequestBody) +
            offsetof(wire::PageEntry, slice_bytes) + 5] = std::byte{1};
  Envelope with_targets = make_envelope(MessageKind::request, 0, 1);
  with_targets.targets = 2;
  Envelope fewer_targets = with_targets;
  fewer_targets.targets = 1;
  const Messages wrongs[] = {
      {{}},
      {Bytes(3)},
      {Bytes(sizeof(Envelope))},
      {Bytes(kPartBufferBytes, std::byte{0xff})},
      {get},  // nobody said who asks
      {roster(), cut(get, get.size() - 1)},
      {roster(), cut(get, sizeof(Envelope))},
      {bare(static_cast<MessageKind>(99))},
      {bare(MessageKind::pong)},
      {roster(), reply({{Status::ok, 0}})},
      {roster(), roster(8)},     // somebody else
      {roster(), roster(7, 2)},  // another link
      {roster(0)},
      {roster(), request(ipc::Opcode::get, targets, support::small_rdma_responder().credits)},
      {roster(), bare(MessageKind::cancel, support::small_rdma_responder().credits, 1)},
      {stripe({1, 0, 0, 2, 0, 2, 0}), get},  // nobody said who asks
      {roster(), stripe({0, 0, 0, 2, 0, 2, 0})},
      {roster(), stripe({1, 0, 0, 2, 0, 2, 0}, support::small_rdma_responder().credits)},
      {roster(), stripe({1, 0, 1, 2, 0, 2, 0}), get},  // more pages than are left
      {roster(), rdma_message(first, full), stripe({1, 0, 0, 2, 0, 2, 0})},
      {roster(), rdma_message(gap, full)},  // does not begin
      {roster(), rdma_message(first, full), rdma_message(first, full)},
      {roster(), rdma_message(first, full), rdma_message(other_use, full)},
      {roster(), rdma_message(first, full), rdma_message(other_length, full)},
      {roster(), rdma_message(first, full), rdma_message(other_targets, full)},
      {roster(), rdma_message(first, full), get},
      {roster(), request(ipc::Opcode::get, {})},
      {roster(), request(ipc::Opcode::get, {targets[1], targets[0]})},
      {roster(), request(ipc::Opcode::exists, targets)},
      {roster(), rdma_message(with_targets, long_page)},
      {roster(), rdma_message(fewer_targets, request_body(ipc::Opcode::get, targets))},
  };
  for (const Messages& wrong : wrongs) {
    CAPTURE(&wrong - wrongs);
    CHECK(scene.serve(wrong) == LinkLoss::protocol);
  }
  CHECK(scene.server.requests == 0);
  // A slot that is served is not the requester's.
  scene.server.holds = true;
  CHECK(scene.serve({roster(), get, again}) == LinkLoss::protocol);
  CHECK(scene.server.requests == 1);
  CHECK(scene.server.aborted == 1);
  CHECK(scene.server.open == 0);
  scene.server.holds = false;
  // The end itself is as it was: an honest requester is served.
  scene.ends.dial(kRoute);
  scene.ends.turn();
  const Ask ask(scene.memory.region, ipc::Opcode::put, 2, kPage);
  REQUIRE(scene.ends.requester.post(kRoute, 5, ask.request) == Status::ok);
  CHECK(scene.ends.turn_until([&] { return scene.answers.replied.size() == 1; }));
}

// They are refused, and what was said of a request is not said of the next one in its slot.
TEST_CASE("rdma garbage: stripes that do not fit together are not served, and nothing is kept") {
  Scene scene;
  const std::vector<wire::RemoteTarget> targets{scene.target(0), scene.target(1)};
  const Bytes get = request(ipc::Opcode::get, targets, 0, 1);
  const Bytes other = request(ipc::Opcode::get, targets, 1, 1);
  const Bytes put = request(ipc::Opcode::put, targets, 1, 1);
  const wire::StripeBody first{1, 0, 0, 4, 0, 2, 0};
  const wire::StripeBody second{1, 0, 2, 4, 1, 2, 0};
  const wire::StripeBody of_three{1, 0, 0, 3, 0, 2, 0};
  struct Pair {
    wire::StripeBody one;
    wire::StripeBody two;
    const Bytes& request;
  };
  const Pair pairs[] = {
      {first, first, other},                             // twice the same
      {first, {1, 0, 2, 4, 1, 3, 0}, other},             // of another number of stripes
      {first, {1, 0, 2, 5, 1, 2, 0}, other},             // ... of pages
      {first, {2, 0, 2, 4, 1, 2, 0}, other},             // of another request
      {first, {1, 0, 1, 4, 1, 2, 0}, other},             // a page twice
      {of_three, {1, kPage - 1, 1, 3, 1, 2, 0}, other},  // a byte twice
      {of_three, {1, kPage + 1, 1, 3, 1, 2, 0}, other},  // a byte of nobody
      {of_three, {1, ~0ull, 1, 3, 1, 2, 0}, other},
      {first, {1, 1, 2, 4, 1, 2, 0}, other},                  // ... nor that
      {{1, 0, 0, 6, 0, 2, 0}, {1, 0, 2, 6, 1, 2, 0}, other},  // not all pages
      {{1, 0, 1, 4, 0, 2, 0}, {1, 0, 2, 4, 1, 2, 0}, other},  // not the first one
      {first, second, put},
  };
  for (const Pair& pair : pairs) {
    CAPTURE(&pair - pairs);
    CHECK(scene.serve({roster(), stripe(pair.one), get, stripe(pair.two, 1), pair.request}) ==
          LinkLoss::dropped);
    CHECK(scene.server.requests == 0);
  }
  // There was room for all of them, and so there is for more than were ever at a time.
  for (std::uint32_t i = 0; i < 2 * kStripedRequestsMax; ++i) {
    CHECK(scene.serve({roster(), stripe(first), get}) == LinkLoss::dropped);
  }
  CHECK(scene.server.requests == 0);
  CHECK(scene.serve({roster(), stripe(first), get, stripe(second, 1), other}) == LinkLoss::dropped);
  CHECK(scene.server.requests == 1);
  CHECK(scene.server.stored == 4);
  CHECK(scene.serve({roster(), stripe(first, 0, 2), get}) == LinkLoss::dropped);
  CHECK(scene.server.requests == 2);
}

// Keys and addresses that are not registered are the device's to refuse.
TEST_CASE("rdma garbage: targets outside of what is registered end the link, and harm nobody") {
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    CAPTURE(static_cast<int>(opcode));
    Scene scene;
    const wire::RemoteTarget good = scene.target(0);
    wire::RemoteTarget unknown = scene.target(1);
    unknown.key ^= 1;
    wire::RemoteTarget beyond = scene.target(1);
    beyond.address += 3 * kPage;
    wire::RemoteTarget before = scene.target(1);
    before.address -= 2 * kPage;
    wire::RemoteTarget end_of_space = scene.target(1);
    end_of_space.address = ~std::uint64_t{0} - 10;
    int moved = 0;
    for (const wire::RemoteTarget& wrong : {unknown, beyond, before, end_of_space}) {
      const LinkLoss loss = scene.serve({roster(), request(opcode, {good, wrong})});
      // Its receives may be heard of before the work that failed.
      CHECK((loss == LinkLoss::protocol || loss == LinkLoss::closed));
      moved = scene.server.stored;
      CHECK(scene.server.open == 0);
      CHECK(std::count(scene.memory.region.base + kPage, scene.memory.region.base + 4 * kPage,
                       kUntouched) == static_cast<std::ptrdiff_t>(3 * kPage));
    }
    CHECK(moved <= 4);  // the good ones
    CHECK(scene.serve({roster(), request(opcode, {good, scene.target(1)})}) == LinkLoss::dropped);
    CHECK(scene.server.stored >= moved + 2);
  }
}

TEST_CASE("rdma garbage: an asker ends a link on answers to what it did not ask") {
  struct Wrong {
    ipc::Opcode opcode;
    Messages messages;
  };
  const std::vector<PageReply> found{{Status::ok, kPage}, {Status::ok, kPage}};
  const std::vector<PageReply> small{{Status::ok, 100}, {Status::ok, 100}};
  Envelope gap = make_envelope(MessageKind::reply, 0, 1);
  gap.body_bytes = wire::kPartBytesMax + 100;
  gap.offset = wire::kPartBytesMax;
  const Wrong wrongs[] = {
      {ipc::Opcode::get, {{}}},
      {ipc::Opcode::get, {Bytes(sizeof(Envelope))}},
      {ipc::Opcode::get, {bare(MessageKind::ping)}},
      {ipc::Opcode::get, {bare(MessageKind::cancel, 0, 1)}},
      {ipc::Opcode::get, {roster()}},
      {ipc::Opcode::get, {request(ipc::Opcode::exists, {})}},
      {ipc::Opcode::get, {cut(reply(found), sizeof(Envelope) + 5)}},
      {ipc::Opcode::get, {reply({{Status::ok, kPage}})}},                // one page too few
      {ipc::Opcode::get, {reply({found[0], found[1], found[0]})}},       // one too many
      {ipc::Opcode::get, {reply({{Status::ok, kPage + 1}, found[1]})}},  // beyond the slice
      {ipc::Opcode::get, {reply(found, 0, 2)}},                          // of another use
      {ipc::Opcode::get, {reply(found, 1, 1)}},  // of a slot that is not out
      {ipc::Opcode::get, {reply(found, support::small_rdma_requester().credits, 1)}},
      {ipc::Opcode::get, {reply(found), reply(found)}},     // twice
      {ipc::Opcode::get, {rdma_message(gap, Bytes(100))}},  // does not begin
      {ipc::Opcode::get, {reply({{static_cast<Status>(7), 0}, found[1]})}},
      {ipc::Opcode::put, {reply(small, 0, 1, true)}},  // brings what was not asked
      {ipc::Opcode::exists, {reply(small, 0, 1, true)}},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(&wrong - wrongs);
    Scene scene;
    CHECK(scene.answer(wrong.opcode, wrong.messages) == LinkLoss::protocol);
    CHECK(scene.answers.replied.size() + scene.answers.fenced.size() == 1);
    // Never a byte outside the two slices.
    CHECK(std::count(scene.memory.region.base + 2 * kPage, scene.memory.region.base + 4 * kPage,
                     kUntouched) == static_cast<std::ptrdiff_t>(2 * kPage));
  }
}

TEST_CASE("rdma garbage: a link that ends in the middle of a request leaves nothing half done") {
  Scene scene;
  Envelope part = make_envelope(MessageKind::request, 0, 1);
  part.body_bytes = 3 * wire::kPartBytesMax;
  CHECK(scene.serve({roster(), rdma_message(part, Bytes(wire::kPartBytesMax))}) ==
        LinkLoss::dropped);
  CHECK(scene.server.requests == 0);
  // The next link finds the slot free.
  const std::vector<wire::RemoteTarget> targets{scene.target(0), scene.target(1)};
  CHECK(scene.serve({roster(), request(ipc::Opcode::get, targets)}) == LinkLoss::dropped);
  CHECK(scene.server.requests == 1);
  CHECK(scene.server.stored == 2);
}

TEST_CASE("rdma garbage: noise, and one byte that was changed on the way, end their link") {
  const std::uint64_t first_seed = seed();
  INFO("repeat: SIMM_SEED=" << first_seed << " unit_transport -tc='rdma garbage: noise*'");
  base::SeededRandom random(first_seed);
  Scene scene;
  for (int i = 0; i < 50; ++i) {
    Bytes bytes(random.below(kPartBufferBytes + 1));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    CHECK(scene.serve({bytes}) == LinkLoss::protocol);
    CHECK(scene.answer(ipc::Opcode::get, {bytes}) == LinkLoss::protocol);
    Bytes changed = request(ipc::Opcode::get, {scene.target(0), scene.target(1)});
    changed[random.below(changed.size())] ^= static_cast<std::byte>(1 + random.below(255));
    CHECK(scene.serve({roster(), changed}) == LinkLoss::protocol);
  }
  // Longer than a receive: the devices themselves find that out.
  CHECK(scene.serve({Bytes(kPartBufferBytes + 1)}) == LinkLoss::closed);
  CHECK(scene.server.requests == 0);
}

}  // namespace rdma_garbage_test
