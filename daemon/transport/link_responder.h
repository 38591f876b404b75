// LinkResponder: the server's end of a transport between daemons, as far as all of them do the
// same: what the server orders goes to the request's link; links end that are mute, silent or
// stalled, that their requester gave up, and that a later life of its daemon has replaced.
//
// Links: the set of them, with its Link; Link::Arrived is its LinkIncoming, Link::path() what fails
// and is open. Owned by a data agent. Thread: the server's data agent; made on the control thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "daemon/transport/link_loss.h"
#include "daemon/transport/link_serving.h"
#include "daemon/transport/requester_rosters.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

template <typename Links>
class LinkResponder : public Responder, private RosterListener {
public:
  using Arrived = typename Links::Link::Arrived;

  LinkResponder(const LinkResponder&) = delete;
  LinkResponder& operator=(const LinkResponder&) = delete;

  void drop_all() noexcept final { links_.drop_all(); }
  void pull(Incoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept final {
    Arrived& arrived = ordered(incoming);
    arrived.link->pull(arrived, page, extent);
  }
  void push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept final {
    Arrived& arrived = ordered(incoming);
    arrived.link->push(arrived, page, bytes, whole_digest);
  }
  void reply(Incoming& incoming, std::span<const PageReply> pages) noexcept final {
    Arrived& arrived = ordered(incoming);
    arrived.link->reply(arrived, pages);
  }
  int do_work() noexcept override {
    int work = links_.take_mail([this](const auto& link) { shared_.rosters.meet(link.owner); });
    const base::TimeNs now_ns = shared_.clock.now_ns();
    work += run_moves();
    end_dead_links(now_ns);
    return work + links_.finish_closing();
  }
  int run_moves() noexcept override {
    has_orders_ = false;
    return links_.run(shared_.clock.now_ns());
  }
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override {
    // Not longer: what is slept through is not counted as the requester's silence.
    const base::TimeNs look_ns = turn_ns_ + shared_.peer_silence_ns / 3;
    base::TimeNs next_ns = base::kNoDeadline;
    const bool is_short = links_.is_short();
    for (const auto& link : links_.used()) {
      if (!link->path().is_open()) continue;
      const base::TimeNs roster_ns = link->serving().roster_due_ns(is_short);
      if (roster_ns != base::kNoDeadline) next_ns = std::min({next_ns, look_ns, roster_ns});
      if (link->serving().count() == 0) continue;
      next_ns = std::min({next_ns, look_ns, link->path().heard_ns + shared_.peer_silence_ns});
    }
    return next_ns;
  }

protected:
  // Both are members of the transport's own class, made behind this base: not touched here.
  LinkResponder(LinkServingShared& shared, Links& links, RequesterRosters& rosters)
      : shared_(shared), links_(links) {
    rosters.add_listener(*this);
  }
  ~LinkResponder() override = default;
  // Orders of the server wait for a turn.
  [[nodiscard]] bool has_orders() const noexcept { return has_orders_; }

private:
  Arrived& ordered(Incoming& incoming) noexcept {
    has_orders_ = true;
    // SAFETY: every Incoming that this responder hands out is an Arrived.
    return static_cast<Arrived&>(incoming);
  }
  void end_dead_links(base::TimeNs now_ns) noexcept {
    const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, shared_.peer_silence_ns);
    turn_ns_ = now_ns;
    const bool is_short = links_.is_short();
    for (const auto& link : links_.used()) {
      // A requester that waits for nothing may be silent, once it has said who it is.
      link->path().forgive(link->serving().count() == 0 ? now_ns : away_ns, now_ns);
      link->serving().forgive(away_ns, now_ns);
      if (!link->path().is_open()) continue;
      const bool is_mute = now_ns >= link->serving().roster_due_ns(is_short);
      if (is_mute || link->serving().is_overdue(link->path().heard_ns, now_ns)) {
        link->path().fail(LinkLoss::silent);
      } else if (link->serving().has_moves() && link->is_stalled(now_ns)) {
        link->path().fail(LinkLoss::stalled);
      }
    }
  }
  // What a link that was given up still carries must not be done behind what is asked for now.
  void on_roster(const LinkRoster& roster, bool remembers_all) noexcept final {
    for (const auto& link : links_.used()) {
      if (!link->path().is_open()) continue;
      const std::uint64_t requester = link->serving().requester();
      if (requester == roster.requester &&
          shared_.rosters.leaves_out(requester, link->serving().number())) {
        link->path().fail(LinkLoss::given_up);
      }
      if (requester == 0 && !remembers_all) link->path().fail(LinkLoss::dropped);
    }
  }
  // Nor behind what the successor of its daemon asks for.
  void on_new_life(std::uint32_t daemon) noexcept final {
    for (const auto& link : links_.used()) {
      if (!link->path().is_open() || link->path().link().owner.daemon != daemon) continue;
      if (shared_.rosters.is_superseded(link->path().link().owner)) {
        link->path().fail(LinkLoss::superseded);
      }
    }
  }

  LinkServingShared& shared_;
  Links& links_;
  base::TimeNs turn_ns_ = 0;  // when the last turn began
  bool has_orders_ = false;   // of the server, since the last turn
};

}  // namespace simm::transport
