#include "daemon/transport/local/local_requester.h"

#include <bit>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

LocalRequester::LocalRequester(const std::vector<LocalChannel*>& channels, LocalInbox& inbox,
                               base::PeerId peer)
    : peer_(peer), inbox_(inbox) {
  lanes_.reserve(channels.size());
  for (LocalChannel* channel : channels) {
    lanes_.push_back({channel, std::make_unique<Posted[]>(channel->credits()),
                      base::FreeSlots(channel->credits())});
  }
}

void LocalRequester::connect(RequesterEvents& events, RegionFaults* faults) noexcept {
  events_ = &events;
  faults_ = faults;
}

LocalRequester::Lane* LocalRequester::lane_of(Route route) noexcept {
  if (route.peer != peer_ || route.shard >= lanes_.size()) return nullptr;
  return &lanes_[route.shard];
}

Status LocalRequester::post(Route route, RequestToken token, const Request& request) noexcept {
  SIMM_CHECK(!request.pages.empty() && request.pages.size() <= ipc::kPagesPerSubmissionMax);
  Lane* lane = lane_of(route);
  if (lane == nullptr) return Status::unreachable;
  if (lane->free.count() <= request.credits_keep) return Status::no_space;
  const std::uint32_t index = lane->free.take();
  Posted& posted = lane->posted[index];
  const std::uint32_t use = posted.use + 1 == 0 ? 1 : posted.use + 1;  // 0 names no use
  posted = {token, use, true, false, false};
  LocalRequest& slot = lane->channel->slot(index);
  slot.header = request.header;
  slot.header.trace = {};  // this daemon's own span of the operation says it all
  slot.pages = request.pages;
  lane->channel->requester_push({LocalCommand::Kind::post, index, use});
  return Status::ok;
}

// A scan: this is needed only for requests that went wrong.
LocalRequester::Posted* LocalRequester::find(Lane& lane, RequestToken token) noexcept {
  for (std::uint32_t i = 0; i < lane.free.capacity(); ++i) {
    if (lane.posted[i].in_use && lane.posted[i].token == token) return &lane.posted[i];
  }
  return nullptr;
}

void LocalRequester::cancel(Route route, RequestToken token) noexcept {
  Lane* lane = lane_of(route);
  Posted* posted = lane == nullptr ? nullptr : find(*lane, token);
  if (posted == nullptr || posted->cancelling || posted->resetting) return;
  posted->cancelling = true;
  const auto index = static_cast<std::uint32_t>(posted - lane->posted.get());
  lane->channel->requester_push({LocalCommand::Kind::cancel, index, posted->use});
}

void LocalRequester::reset(Route route, RequestToken culprit) noexcept {
  Lane* lane = lane_of(route);
  Posted* posted = lane == nullptr ? nullptr : find(*lane, culprit);
  if (posted == nullptr || posted->resetting) return;
  posted->resetting = true;
  const auto index = static_cast<std::uint32_t>(posted - lane->posted.get());
  lane->channel->requester_push({LocalCommand::Kind::reset, index, posted->use});
}

std::uint64_t LocalRequester::moved(Route route) const noexcept {
  if (route.peer != peer_ || route.shard >= lanes_.size()) return 0;
  return lanes_[route.shard].channel->requester_moved();
}

int LocalRequester::do_work() noexcept {
  int work = 0;
  marked_ |= inbox_.take();
  for (std::uint64_t left = marked_; left != 0; left &= left - 1) {
    bool has_more = false;
    work += take_events(lanes_[static_cast<std::size_t>(std::countr_zero(left))], has_more);
    if (!has_more) marked_ &= ~(left & -left);
  }
  return work;
}

// Bounded by the credits: an upcall may post anew, and that may be answered by another agent while
// we are here.
int LocalRequester::take_events(Lane& lane, bool& has_more) noexcept {
  int taken = 0;
  LocalEvent event;
  for (std::uint32_t i = 0; i < lane.free.capacity(); ++i, ++taken) {
    if (!lane.channel->requester_pop(event)) return taken;
    take_event(lane, event);
  }
  has_more = true;
  return taken;
}

void LocalRequester::take_event(Lane& lane, LocalEvent event) noexcept {
  Posted& posted = lane.posted[event.index];
  SIMM_CHECK(posted.in_use);
  LocalRequest& slot = lane.channel->slot(event.index);
  if (slot.faulted != nullptr && faults_ != nullptr) faults_->on_region_fault(*slot.faulted);
  posted.in_use = false;
  // A reply that crossed a reset is no reply any more: the engine was promised a fence.
  if (posted.resetting) {
    events_->on_fenced(posted.token, FenceCause::reset);
  } else if (event.kind == LocalEvent::Kind::aborted) {
    events_->on_fenced(posted.token, FenceCause::collateral);  // its server has dropped all
  } else {
    const auto replies = std::span<const PageReply>(slot.replies).first(slot.reply_count);
    events_->on_reply(posted.token, replies);
  }
  // Only now: the replies were read from it.
  lane.free.give(event.index);
}

}  // namespace simm::transport
