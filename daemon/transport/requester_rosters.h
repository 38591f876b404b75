// RequesterRosters: the newest LinkRoster of every requester that a server's shard has heard of. It
// outlives the links, because one that was given up may say its name only after its successors did.
//
// Its room is bounded. Who has no link here may be forgotten, the one who was silent longest first;
// note() says so, and then no link may be trusted that has not said yet whose it is.
//
// A roster speaks for one process. That a daemon was killed its successor's links say: the first
// one ends all those of the lives before, whatever they still carry (meet()).
// Owned by the data agent, shared by its responders. Thread: the data agent. No allocation after
// construction.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/transport/link_owner.h"
#include "daemon/transport/link_roster.h"

namespace simm::transport {

// Who has links of requesters.
class RosterListener {
public:
  virtual ~RosterListener() = default;
  // `roster` is known by now: every link of that requester that leaves_out() says was given up
  // ends. Unless `remembers_all`, so does every link that has not said yet whose it is: it may be
  // of a requester who was forgotten, and given up; an honest one is dialled again.
  virtual void on_roster(const LinkRoster& roster, bool remembers_all) noexcept = 0;
  // A new life of that daemon: every link that is_superseded() says is of an older one ends.
  virtual void on_new_life(std::uint32_t daemon) noexcept = 0;
};

class RequesterRosters {
public:
  // At most `links_max` links are open at one time.
  explicit RequesterRosters(std::uint32_t links_max)
      : requesters_(std::size_t{2} * links_max), lives_(kAskingDaemonsMax) {}
  RequesterRosters(const RequesterRosters&) = delete;
  RequesterRosters& operator=(const RequesterRosters&) = delete;

  // Before the first roster; it outlives the use.
  void add_listener(RosterListener& listener) { listeners_.push_back(&listener); }
  // Notes what a requester said, and tells all listeners.
  void hear(const LinkRoster& roster, bool is_first) noexcept {
    const bool remembers_all = note(roster, is_first);
    for (RosterListener* listener : listeners_) listener->on_roster(roster, remembers_all);
  }

  // There is a link of that owner; before anything that came over it is looked at.
  void meet(LinkOwner owner) noexcept {
    if (owner.life == 0 || lives_[owner.daemon] >= owner.life) return;
    lives_[owner.daemon] = owner.life;
    for (RosterListener* listener : listeners_) listener->on_new_life(owner.daemon);
  }
  // A later life of that daemon was met.
  [[nodiscard]] bool is_superseded(LinkOwner owner) const noexcept;

  // What a requester said. `is_first`: of that link, which counts for the requester until leave().
  // False: somebody else had to be forgotten for it.
  [[nodiscard]] bool note(const LinkRoster& roster, bool is_first) noexcept;
  // A link of that requester has ended.
  void leave(std::uint64_t requester) noexcept;
  // That link of that requester, who is known, was given up.
  [[nodiscard]] bool leaves_out(std::uint64_t requester, std::uint64_t link) const noexcept;

private:
  struct Known {
    LinkRoster newest;  // requester 0: free
    std::uint32_t links = 0;
    std::uint64_t noted = 0;  // greater: later
  };
  [[nodiscard]] const Known* find(std::uint64_t requester) const noexcept;
  [[nodiscard]] Known* find(std::uint64_t requester) noexcept;

  std::vector<Known> requesters_;
  std::vector<std::uint64_t> lives_;  // the newest that was met, by daemon
  std::vector<RosterListener*> listeners_;
  std::uint64_t notes_ = 0;
};

}  // namespace simm::transport
