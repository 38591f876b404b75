// LinkSet: the links of one end of the TCP transport: taking new ones from the control thread,
// which makes their places, running those in use, and telling of their ends.
// Link: RequesterLink or ResponderLink.
// Owned by a TcpRequester or TcpResponder. Thread: the data agent; made on the control thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/transport/link_row.h"
#include "daemon/transport/tcp/lost_links.h"
#include "daemon/transport/tcp/socket_io.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "daemon/transport/tcp/tcp_connection.h"
#include "daemon/transport/tcp/tcp_link.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

template <typename Link>
class LinkSet : public LinkRow<Link> {
  using LinkRow<Link>::links_, LinkRow<Link>::used_;

public:
  using LinkRow<Link>::used, LinkRow<Link>::drop_peer;

  // `shared` is what each link is made with, and outlives the set like the others.
  template <typename Shared>
  LinkSet(std::uint32_t links_max, Shared& shared, TcpLinkMailbox& mailbox)
      : LinkRow<Link>(links_max),
        io_(shared.io),
        clock_(shared.clock),
        mailbox_(mailbox),
        places_{links_max, make_place<Shared>, destroy_place, &shared},
        lost_(links_max, mailbox) {
    routes_.reserve(links_max);
    mailbox.control_use(places_);
  }
  // Breaks every link and waits until the kernel has let go of all memory; nobody is told.
  ~LinkSet() {
    bool are_quiet = false;
    for (int i = 0; i < kStopTurns && !are_quiet; ++i) {
      are_quiet = true;
      for (const auto& link : links_) are_quiet = link->stop() && are_quiet;
      if (!are_quiet) io_.poll();
    }
    // With io_uring, when the agent's thread has ended: no cancel can be asked for any more, and
    // none is needed, because the kernel ended everything with the thread.
    while (ready_.pop_front() != nullptr) {
    }
  }

  // For links that come beside the mailbox: makes a place where none is free.
  void add_here(TcpLink link) {
    const bool is_full = std::none_of(links_.begin(), links_.end(),
                                      [](const auto& one) { return one->path().is_free(); });
    if (is_full && links_.size() < places_.max) grow(places_.make(places_.shared));
    add(std::move(link));
  }
  // Takes the link; without room it is reported as lost (refused).
  void add(TcpLink link) noexcept {
    const LinkLost refused{link.link, link.peer, link.shard, LinkLoss::refused};
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (!links_[i]->path().is_free()) continue;
      if (!links_[i]->open(std::move(link), ready_, clock_.now_ns())) break;
      routes_[i] = {refused.peer, refused.shard};
      used_ = std::max(used_, i + 1);
      return;
    }
    lost_.add(refused);
  }

  // Calls visit(link) for those on that route; some may be free. With many links the others are
  // not touched.
  template <typename Visit>
  void each_on(Route route, Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
      if (routes_[i] == route) visit(*links_[i]);
    }
  }
  // True: nothing that has ended waits to be taken.
  [[nodiscard]] bool has_none_ready() const noexcept { return ready_.empty(); }

  // meet(link) is called for each new one, before a place is looked for.
  template <typename Meet>
  int take_mail(Meet&& meet) noexcept {
    if (!lost_.has_room()) return 0;
    const auto take = [this, &meet](TcpLink link) {
      meet(link);
      add(std::move(link));
    };
    return mailbox_.agent_take(
        take, [this](base::PeerId peer) { drop_peer(peer, LinkLoss::dropped); },
        [this](std::uint64_t link) { this->drop_link(link, LinkLoss::dropped); },
        [this](void* place) { grow(place); });
  }
  // Starts what can be started, gives it to the kernel, and takes what has ended, until there is
  // nothing to do or others have to have their turn: after some rounds, or some bytes.
  int run(base::TimeNs now_ns) noexcept {
    turn_bytes_ = 0;
    int work = 0;
    for (int round = 0; round < kRoundsPerTurn && turn_bytes_ < kTurnBytesMax; ++round) {
      const int did = run_once(now_ns);
      work += did;
      if (did == 0) break;
    }
    return work;
  }
  // Ends those that are closing and have nothing under way, and tells the control thread.
  int finish_closing() noexcept {
    int work = 0;
    for (const auto& link : used()) {
      TcpConnection& connection = link->path();
      if (!connection.is_closing() || !lost_.can_add() || !link->finish_closing()) continue;
      lost_.add(connection.lost());
      connection.close();
      ++work;
    }
    while (used_ > 0 && links_[used_ - 1]->path().is_free()) --used_;
    lost_.report(mailbox_);
    return work;
  }

private:
  template <typename Shared>
  static void* make_place(void* shared) {
    // SAFETY: the constructor has put a Shared there.
    return std::make_unique<Link>(*static_cast<Shared*>(shared)).release();
  }
  static void destroy_place(void* place) {
    // SAFETY: make_place() has made it.
    const std::unique_ptr<Link> gone(static_cast<Link*>(place));
  }
  // There is capacity for links_max from the start. One too many comes only where add_here() has
  // made some.
  void grow(void* place) noexcept {
    if (links_.size() >= places_.max) return destroy_place(place);
    // SAFETY: make_place() has made it.
    links_.emplace_back(static_cast<Link*>(place));
    routes_.emplace_back();
  }
  int run_once(base::TimeNs now_ns) noexcept {
    int work = 0;
    for (const auto& link : used()) work += link->run(now_ns);
    // Counted, because it may be for another one who shares the io and had its turn already.
    work += io_.poll();
    IoReadyList ended;
    ended.splice_back(ready_);
    while (IoSocket* socket = ended.pop_front()) {
      turn_bytes_ += socket->ended_bytes();
      // SAFETY: the owner was set by open() and lives as long as this set.
      work += static_cast<Link*>(socket->owner)->serve(now_ns);
    }
    return work;
  }

  SocketIo& io_;
  const base::Clock& clock_;
  TcpLinkMailbox& mailbox_;
  const LinkPlaces places_;
  IoReadyList ready_;
  std::vector<Route> routes_;  // of links_[i], which it has or had last
  LostLinks lost_;
  std::uint64_t turn_bytes_ = 0;  // that the run has moved
};

}  // namespace simm::transport
