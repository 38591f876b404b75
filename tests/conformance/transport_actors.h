// The two ends that the suite plays: a requester that knows what a requester may do to it, and a
// server that keeps objects in a map. Both check the rules of transport.h at every call.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/random.h"
#include "tests/conformance/transport_world.h"

namespace conformance {

using simm::Status;
using simm::transport::FenceCause;
using simm::transport::Incoming;
using simm::transport::MoveResult;
using simm::transport::PageReply;
using simm::transport::PageRequest;
using simm::transport::RequestToken;

// How many downcalls are on the stack: an upcall must find none (rule 4).
struct Depth {
  static inline int downcalls = 0;
  Depth() { ++downcalls; }
  ~Depth() { --downcalls; }
};

// One page that the requester asks for.
struct Wish {
  std::string key;
  std::uint64_t offset = 0;  // of its slice in the region
  std::uint64_t length = 0;  // 0: no slice
};

class Server final : public simm::transport::ResponderEvents {
public:
  struct Job {
    std::uint64_t serial = 0;
    simm::ipc::Opcode opcode = simm::ipc::Opcode::noop;
    std::vector<std::vector<std::byte>> extents;  // reserved until their move was reported
    std::vector<bool> moving;
    std::vector<PageReply> replies;
    std::size_t moves_open = 0;
    bool started = false;
    bool cancelled = false;
  };

  // Held requests are not served before release(), held answers not sent.
  bool hold_requests = false;
  bool hold_replies = false;
  std::map<std::string, std::vector<std::byte>> objects;
  std::vector<simm::transport::RequestHeader> headers;  // as they arrived
  std::vector<std::vector<PageRequest>> pages_seen;     // without their pointers' targets
  int requests = 0;
  int replied = 0;
  int aborted = 0;
  int cancels = 0;

  std::size_t open() const { return jobs_.size(); }
  bool moving() const;
  // Serves what was held.
  void release_requests();
  // The same, and answers what is ready.
  void release();

  void on_request(Incoming& incoming) noexcept override;
  void on_moved(Incoming& incoming, std::uint16_t page, MoveResult result) noexcept override;
  void on_cancel(Incoming& incoming) noexcept override;
  void on_aborted(Incoming& incoming) noexcept override;

private:
  void start(Incoming& incoming, Job& job);
  void start_page(Incoming& incoming, Job& job, std::uint16_t page);
  void answer_when_done(Incoming& incoming, Job& job);

  std::map<Incoming*, std::unique_ptr<Job>> jobs_;
  std::uint64_t next_serial_ = 1;
};

class Requester final : public simm::transport::RequesterEvents {
public:
  struct Asked {
    std::vector<Wish> wishes;
    std::vector<PageRequest> pages;
    std::vector<std::unique_ptr<char[]>> keys;
    simm::transport::Request request;
    bool is_over = false;
    bool was_replied = false;
    FenceCause cause = FenceCause::reset;
    std::vector<PageReply> replies;
    std::vector<std::vector<std::byte>> slices;  // of a get, as they were when the reply came
    bool was_reset = false;
  };

  explicit Requester(TransportWorld& world) : world_(world) {}

  // Posts; the token of the request, or the refusal.
  Status post(simm::ipc::Opcode opcode, const std::vector<Wish>& wishes, RequestToken& token,
              std::uint32_t credits_keep = 0);
  // Posts and must be accepted.
  RequestToken must_post(simm::ipc::Opcode opcode, const std::vector<Wish>& wishes);
  void cancel(RequestToken token);
  void reset(RequestToken token);

  Asked& at(RequestToken token) { return *asked_.at(token); }
  bool is_over(RequestToken token) { return at(token).is_over; }
  std::size_t open() const;
  // Everything in flight is over within `turns` turns of the world.
  void settle(int turns = 20'000);
  // Slices of finished requests still hold what was written into them after the end.
  void check_canaries();
  // The same, and forgets finished requests, so that their slices may be used again.
  void forget();

  void on_reply(RequestToken token, std::span<const PageReply> pages) noexcept override;
  void on_fenced(RequestToken token, FenceCause cause) noexcept override;

  bool was_dropped = false;  // the responder was told to end every path
  // What the next post's header says besides the opcode.
  simm::transport::RequestHeader header;

private:
  Asked* end(RequestToken token);
  void refill(Asked& asked);

  TransportWorld& world_;
  std::map<RequestToken, std::unique_ptr<Asked>> asked_;
  RequestToken next_token_ = 0x5eed'0000'0001;
};

// A world with both ends, one transport.
struct Stage {
  explicit Stage(const TransportFactory& factory) : world(factory.make()), requester(*world) {
    world->requester().connect(requester, nullptr);
    world->responder().connect(server);
    world->requester_turn();  // both ends take their first paths
    world->responder_turn();
  }
  ~Stage() { requester.check_canaries(); }
  int turn() { return world->requester_turn() + world->network_turn() + world->responder_turn(); }
  void drop_all() {
    requester.was_dropped = true;
    const Depth depth;
    world->responder().drop_all();
  }
  // After the requester has settled: the server answers each request or is told that it is over. A
  // real device takes its own time to end what the other side has left.
  void check_server_lets_go() {
    for (int i = 0; i < 20'000 && server.open() > 0; ++i) turn();
    CHECK(server.open() == 0);
    CHECK(server.requests == server.replied + server.aborted);
  }
  std::unique_ptr<TransportWorld> world;
  Server server;
  Requester requester;
};

// Bytes that tell their place and their seed.
std::vector<std::byte> pattern(std::uint64_t seed, std::uint64_t length);
void fill(TransportWorld& world, const Wish& wish, const std::vector<std::byte>& bytes);
std::vector<std::byte> read(TransportWorld& world, const Wish& wish);

}  // namespace conformance
