// LinkServing: what the serving end of a link does alike over every transport between daemons: who
// asks (by its rosters), what is served, how its moves get on, and when it counts as dead. The
// link itself knows frames or messages, and how bytes move.
// Owned by the link. Thread: the server's data agent. No allocation.
#pragma once

#include <cstdint>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/base/tenant_weights.h"
#include "daemon/transport/link_incoming.h"
#include "daemon/transport/link_owner.h"
#include "daemon/transport/payload_progress.h"
#include "daemon/transport/request_codec.h"
#include "daemon/transport/requester_rosters.h"
#include "daemon/transport/roster_wait.h"
#include "daemon/transport/transport.h"
#include "simm/check.h"

namespace simm::transport {

// What all links of one responder share.
struct LinkServingShared {
  const base::Clock& clock;
  RequesterRosters& rosters;
  const base::TimeNs peer_silence_ns;  // a requester that is silent for so long is dead
  const std::uint32_t credits;         // requests that may be under way on one link
  const base::TenantWeights weights;   // of turns on a link
  ServerOrders* responder = nullptr;
  ResponderEvents* events = nullptr;
};

class LinkServing {
public:
  explicit LinkServing(LinkServingShared& shared) noexcept : shared_(shared) {}

  // A new link.
  void begin(base::TimeNs now_ns) noexcept;
  // Its requester says which links it uses. False: no requester of ours says that.
  [[nodiscard]] bool take_roster(const wire::RosterBody& body) noexcept;
  // Whose the link is, as its rosters say; 0: it has not said anything yet.
  [[nodiscard]] std::uint64_t requester() const noexcept { return requester_; }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  // ---- requests ----

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] bool has_moves() const noexcept { return moves_open_ > 0; }
  // A request has come, its pages decoded into `incoming`; the server is told behind this.
  void accept(LinkIncoming& incoming, const DecodedRequest& decoded, LinkOwner owner) noexcept;
  void begin_move(LinkIncoming& incoming) noexcept {
    ++incoming.moves_open;
    if (++moves_open_ == 1) progress_.note();  // nobody waited before
  }
  // Tells the server.
  void end_move(LinkIncoming& incoming, std::uint16_t page, MoveResult result) noexcept {
    --incoming.moves_open;
    --moves_open_;
    progress_.note();
    shared_.events->on_moved(incoming, page, result);
  }
  // The server answers.
  void answer(LinkIncoming& incoming, std::size_t pages) noexcept {
    SIMM_CHECK(incoming.is_served && incoming.moves_open == 0);
    SIMM_CHECK(pages == incoming.page_count);
    incoming.is_served = false;
    --count_;
  }
  // The link is over: every move ends, and the server is told. end_move(incoming, page) ends one
  // that is under way. The server may start others while it is told: those end as well, a page at
  // a time.
  template <typename Slots, typename EndMove>
  void abort_all(Slots& slots, EndMove&& end_move) noexcept {
    for (std::uint32_t slot = 0; slot < shared_.credits && count_ > 0; ++slot) {
      auto& incoming = slots[slot];
      if (!incoming.is_served) continue;
      incoming.is_cancelled = true;
      while (incoming.is_served && incoming.moves_open > 0) {
        for (std::uint16_t page = 0; page < incoming.page_count && incoming.is_served; ++page) {
          if (incoming.moves[page].kind != MoveKind::none) end_move(incoming, page);
        }
      }
      if (!incoming.is_served) continue;  // answered, when its last move had ended
      incoming.is_served = false;
      --count_;
      shared_.events->on_aborted(incoming);
    }
    if (requester_ != 0) shared_.rosters.leave(requester_);
  }

  // ---- life ----

  // `away_ns` of the wait until now were not the requester's.
  void forgive(base::TimeNs away_ns, base::TimeNs now_ns) noexcept {
    roster_wait_.forgive(away_ns, now_ns);
    progress_.forgive(away_ns, now_ns);
  }
  // True: the requester, who was heard last at `heard_ns`, is dead. One that waits for nothing may
  // be silent.
  [[nodiscard]] bool is_overdue(base::TimeNs heard_ns, base::TimeNs now_ns) const noexcept {
    return count_ > 0 && now_ns >= heard_ns + shared_.peer_silence_ns;
  }
  // When the link has to go for want of a roster; kNoDeadline: its requester has said one.
  [[nodiscard]] base::TimeNs roster_due_ns(bool is_short) const noexcept {
    return requester_ != 0 ? base::kNoDeadline
                           : roster_wait_.due_ns(shared_.peer_silence_ns, is_short);
  }
  // True, three times in peer_silence_ns at most: moves of a request are under way so long behind
  // its deadline.
  template <typename Slots>
  [[nodiscard]] bool is_past_deadline(Slots& slots, base::TimeNs now_ns) noexcept {
    const base::TimeNs silence_ns = shared_.peer_silence_ns;
    return progress_.are_deadlines_due(now_ns, silence_ns) &&
           PayloadProgress::is_past_deadline(slots, shared_.credits, now_ns, silence_ns);
  }
  [[nodiscard]] PayloadProgress& progress() noexcept { return progress_; }

private:
  LinkServingShared& shared_;
  std::uint32_t count_ = 0;       // of requests that are served
  std::uint32_t moves_open_ = 0;  // of all of them
  PayloadProgress progress_;
  RosterWait roster_wait_;
  std::uint64_t requester_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace simm::transport
