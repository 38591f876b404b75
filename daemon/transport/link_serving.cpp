#include "daemon/transport/link_serving.h"

#include <algorithm>

namespace simm::transport {

void LinkServing::begin(base::TimeNs now_ns) noexcept {
  requester_ = number_ = 0;
  progress_.begin();
  roster_wait_.begin(now_ns);
}

bool LinkServing::take_roster(const wire::RosterBody& body) noexcept {
  LinkRoster roster;
  if (!decode_roster(body, roster)) return false;
  const bool is_first = requester_ == 0;
  if (!is_first && (roster.requester != requester_ || roster.link != number_)) return false;
  requester_ = roster.requester;
  number_ = roster.link;
  shared_.rosters.hear(roster, is_first);  // it may end this link
  return true;
}

void LinkServing::accept(LinkIncoming& incoming, const DecodedRequest& decoded,
                         LinkOwner owner) noexcept {
  incoming.responder = shared_.responder;
  incoming.header = decoded.header;
  base::TimeNs& deadline_ns = incoming.header.deadline_ns;
  if (deadline_ns == wire::kNoDeadline) {
    deadline_ns = 0;
  } else {
    const base::TimeNs now_ns = shared_.clock.fresh_ns();
    deadline_ns = now_ns + std::min(deadline_ns, ~base::TimeNs{0} - now_ns);
  }
  incoming.pages = std::span<const PageRequest>(incoming.page_list).first(decoded.page_count);
  incoming.page_count = decoded.page_count;
  incoming.server_data = nullptr;
  incoming.requester_id = requester_id_of(owner, requester_);
  incoming.is_served = true;
  incoming.is_cancelled = false;
  incoming.moves_open = 0;
  ++count_;
}

}  // namespace simm::transport
