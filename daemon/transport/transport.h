// Transport: the seam between engines (who ask) and servers (who own objects). Implementations:
// local (same process), sim (simulated network), tcp and rdma. Every implementation runs the
// suite in tests/conformance.
//
// Two ends. An engine talks to a Requester; a server is called by a Responder. The serving side
// drives the payload: it pulls a put's bytes out of the requester's slice and pushes a get's bytes
// into it, then replies; a reply is never visible before the data it speaks of.
//
// Rules of ownership, for every implementation
//  1. From post() until on_reply() or on_fenced() the transport may read the Request's pages and
//     keys and touch its slices. After either call it touches none of them, ever: an operation
//     completes towards its client only then. Exactly one of the two is called for each token.
//  2. cancel() asks politely: the serving side stops issuing moves, and answers when those that are
//     under way have ended (pages that were not carried out answer Status::cancelled). reset() does
//     not ask: it breaks the path; every token on it is fenced, none is replied. abandon() lies
//     between them: it fences one request where that costs the others on its path nothing.
//  3. From on_request() until reply() or on_aborted() the Incoming is valid. After reply() or
//     on_aborted() the server forgets it. While a move is under way its memory (extent) stays
//     reserved: the transport reports each move exactly once, by on_moved(), before it may be
//     freed; on_aborted() comes only when no move of that Incoming is under way any more.
//  4. No upcall is made from inside a downcall (post, cancel, reset, pull, push, reply): upcalls
//     come from do_work() only, so neither side is re-entered.
//  5. No allocation, no lock, no blocking call after construction. Status::no_space from post()
//     means "no credit now": ask again in a later turn.
//  6. A downcall only gives an order. The next turn of the same end carries it out: do_work(), or,
//     where a server gave the order, run_moves(). An end with an order that is not carried out is
//     not ready to sleep: prepare_sleep() is false, or next_deadline_ns() names a time. An end with
//     nothing under way is ready, and names no time.
// Thread: a Requester belongs to its engine's data agent, a Responder to its server's.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/base/agent.h"
#include "daemon/memory/helper/object_part.h"
#include "daemon/transport/request.h"

namespace simm::transport {

class RegionFaults;

// The engine's own name of a posted request, returned unchanged.
using RequestToken = std::uint64_t;

// Where a request goes: a peer, and the shard (data agent) of it that owns the slot.
struct Route {
  base::PeerId peer;
  std::uint16_t shard = 0;
  bool operator==(const Route&) const = default;
};

enum class FenceCause : std::uint8_t {
  reset = 0,       // this engine reset the path because of this very request
  collateral = 1,  // the path was reset or broke because of something else: may be tried again once
};

class RequesterEvents {
public:
  virtual ~RequesterEvents() = default;
  // The owner's answer; `pages` is parallel to Request::pages and valid during the call only.
  virtual void on_reply(RequestToken token, std::span<const PageReply> pages) noexcept = 0;
  // Nothing remote or local touches the request any more, and no answer will come. What it did at
  // the owner is unknown: a put is visible whole or not at all.
  virtual void on_fenced(RequestToken token, FenceCause cause) noexcept = 0;
};

class Requester {
public:
  virtual ~Requester() = default;
  // Who is told; before the first post. `faults` may be null.
  virtual void connect(RequesterEvents& events, RegionFaults* faults) noexcept = 0;
  // ok: accepted, exactly one of on_reply/on_fenced follows. no_space: no credit, or none but those
  // that Request::credits_keep leaves to others; nothing happened.
  // unreachable: no path to that peer now. unsupported: the peer does not know such a request.
  virtual Status post(Route route, RequestToken token, const Request& request) noexcept = 0;
  virtual void cancel(Route route, RequestToken token) noexcept = 0;
  // Behind cancel(): nobody waits for the answer any more. A transport that can lets go of this
  // request alone, and on_fenced(reset) follows once nothing touches its slices. Else, as with what
  // a put has sent already, nothing happens.
  virtual void abandon(Route, RequestToken) noexcept {}
  // `culprit` gets FenceCause::reset, all others on the path FenceCause::collateral. Nothing
  // happens when the culprit was answered, or its path was broken, already. What counts as one
  // path is the transport's: a connection, or (local) each request by itself.
  virtual void reset(Route route, RequestToken culprit) noexcept = 0;
  // Changes whenever payload, or an answer, moves between this end and that shard: what tells a
  // slow path from one that stands. The same for ever: this transport does not see it.
  [[nodiscard]] virtual std::uint64_t moved(Route) const noexcept { return 0; }
  virtual int do_work() noexcept = 0;
  // When do_work() has to run even if nothing arrives.
  [[nodiscard]] virtual base::TimeNs next_deadline_ns() const noexcept { return base::kNoDeadline; }
  // The agent is about to sleep: a last turn follows. True: nothing has to be done before something
  // arrives, which wakes the agent, or before next_deadline_ns().
  [[nodiscard]] virtual bool prepare_sleep() noexcept { return true; }
};

class ServerOrders;

// A request that arrived at a server. Made by the Responder; `server_data` is the server's.
struct Incoming {
  ServerOrders* responder = nullptr;
  RequestHeader header;                // deadline_ns is on the serving daemon's clock here
  std::span<const PageRequest> pages;  // slices: only `length` means anything to the server
  void* server_data = nullptr;
  bool is_recorded = false;  // the server's: simmctl trace is told of it
  // The daemon that asks: its requests share its part of what the server has under way, over
  // whichever links they come. 0: this daemon itself.
  std::uint64_t requester_id = 0;
};

// What became of one move. `digest` is xxh3-64 of the bytes now in (pull) or sent from (push) the
// server's extent; of a push only when it was asked for or is always there.
struct MoveResult {
  Status status = Status::ok;
  std::uint64_t digest = 0;
};

class ResponderEvents {
public:
  virtual ~ResponderEvents() = default;
  virtual void on_request(Incoming& incoming) noexcept = 0;
  virtual void on_moved(Incoming& incoming, std::uint16_t page, MoveResult result) noexcept = 0;
  // The requester wants it over: issue no more moves, reply as soon as none is under way.
  virtual void on_cancel(Incoming& incoming) noexcept = 0;
  // The path is gone and no move is under way. There is nobody to reply to.
  virtual void on_aborted(Incoming& incoming) noexcept = 0;
};

// What a server orders for a request that has arrived, until it has answered.
class ServerOrders {
public:
  virtual ~ServerOrders() = default;
  // Copies the page's whole slice into `extent` (same length), private memory of the server.
  virtual void pull(Incoming& incoming, std::uint16_t page,
                    std::span<std::byte> extent) noexcept = 0;
  // Copies `bytes` (never longer than the page's slice) to the start of the slice. `whole_digest`:
  // also compute the xxh3-64 of `bytes` while they pass.
  virtual void push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
                    bool whole_digest) noexcept = 0;
  // Of the push that was ordered last, if its slice is reached by a helper: the bytes have this
  // name. That helper may have a copy of them. Others have no use for it.
  virtual void name_pushed(Incoming&, const memory::ObjectPart&) noexcept {}
  // True: every push of a whole slice takes the digest, asked for or not, because it travels along.
  [[nodiscard]] virtual bool always_digests() const noexcept { return false; }
  // Something is done for this request that the requester does not see: it shows in moved(), where
  // that is of use.
  virtual void note_progress(Incoming&) noexcept {}
  // `pages` is parallel to incoming.pages; copied before the call returns.
  virtual void reply(Incoming& incoming, std::span<const PageReply> pages) noexcept = 0;
};

class Responder : public ServerOrders {
public:
  // Who serves; before the first turn.
  virtual void connect(ResponderEvents& events) noexcept = 0;
  // Ends every path, as at the end of the agent: what arrived is aborted in later turns, unless the
  // server answers when its last move has ended. Its requester is fenced as collateral, or hears
  // that answer. A path that is made anew is served again.
  virtual void drop_all() noexcept = 0;
  // A whole turn, run_moves() included.
  virtual int do_work() noexcept = 0;
  // The second half of a turn: for an agent that runs it after the server's own turn, so that what
  // the server has ordered leaves in the same pass.
  virtual int run_moves() noexcept = 0;
  // These two as those of a Requester.
  [[nodiscard]] virtual base::TimeNs next_deadline_ns() const noexcept { return base::kNoDeadline; }
  [[nodiscard]] virtual bool prepare_sleep() noexcept { return true; }
};

}  // namespace simm::transport
