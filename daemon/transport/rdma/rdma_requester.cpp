#include "daemon/transport/rdma/rdma_requester.h"

#include <algorithm>
#include <utility>

#include "daemon/base/agent.h"
#include "simm/check.h"

namespace simm::transport {

namespace {

// Tokens of parts.
constexpr unsigned kPartBits = 8;
static_assert(kRailsMax <= 1u << kPartBits);

constexpr base::TimeNs kWaitPollNs = base::kNsPerMs;

}  // namespace

RdmaRequester::RdmaRequester(const RdmaRequesterConfig& config, const base::Clock& clock,
                             std::vector<RdmaPort*> ports, const MemoryKeys& keys, Mover& mover,
                             OwnRoster& links, RdmaLinkMailbox& mailbox,
                             const RdmaCounters& counters)
    : config_(config),
      shared_{config_, clock, keys, mover, links, counters},
      batches_(std::size_t{config.links_max} * config.credits),
      free_(config.links_max * config.credits),
      waiting_(config.links_max * config.credits),
      links_(config.links_max, shared_, std::move(ports), mailbox),
      chooser_(config_, keys, links_) {
  shared_.events = this;
}

void RdmaRequester::connect(RequesterEvents& events, RegionFaults* faults) noexcept {
  events_ = &events;
  shared_.faults = faults;
}

int RdmaRequester::do_work() noexcept {
  has_posted_ = false;
  const base::TimeNs now_ns = shared_.clock.now_ns();
  int work = links_.take_mail([](const RdmaLink&) {});
  work += post_waiting();
  work += links_.run(now_ns);
  // While we were stopped ourselves, or had no CPU, the silence was ours: that time is not counted.
  const base::TimeNs away_ns = uncounted_ns(turn_ns_, now_ns, config_.peer_detection_ns);
  turn_ns_ = now_ns;
  for (const auto& link : links_.used()) {
    link->path().forgive(away_ns, now_ns);
    if (link->check_life(now_ns)) link->path().fail(LinkLoss::silent);
  }
  return work + links_.finish_closing();
}

base::TimeNs RdmaRequester::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = links_.next_deadline_ns();
  // An answer brings a credit, and wakes us. Nobody does when memory is registered.
  if (!waiting_.empty()) next_ns = std::min(next_ns, shared_.clock.now_ns() + kWaitPollNs);
  for (const auto& link : links_.used()) next_ns = std::min(next_ns, link->next_deadline_ns());
  return next_ns;
}

// ---- requests ----

RequestToken RdmaRequester::part_token(const RdmaBatch& batch, std::uint8_t part) const noexcept {
  return RequestToken{batches_.index_of(batch)} << kPartBits | part;
}

// A scan: this is needed only for requests that went wrong.
RdmaBatch* RdmaRequester::find(RequestToken token) noexcept {
  for (std::size_t i = 0; i < batches_touched_; ++i) {
    if (batches_[i].in_use && batches_[i].token == token) return &batches_[i];
  }
  return nullptr;
}

bool RdmaRequester::post_part(RdmaBatch& batch, std::uint8_t part,
                              RdmaRequesterLink& link) noexcept {
  RdmaBatch::Part& posted = batch.parts[part];
  const Request request{batch.header, batch.pages.subspan(posted.first_page, posted.page_count)};
  if (batch.is_striped) {
    const Request stripe{batch.header, std::span(batch.stripes[part]).first(posted.page_count)};
    const wire::StripeBody said = RailChooser::stripe_of(batch, part);
    if (!link.post(part_token(batch, part), stripe, &said)) return false;
  } else if (!link.post(part_token(batch, part), request)) {
    return false;
  }
  posted.state = PartState::out;
  return true;
}

Status RdmaRequester::post(Route route, RequestToken token, const Request& request) noexcept {
  SIMM_CHECK(!request.pages.empty() && request.pages.size() <= ipc::kPagesPerSubmissionMax);
  RailChooser::Choice choice = chooser_.choose(route, request.pages.front().slice);
  if (!choice.is_reachable) return Status::unreachable;
  const bool has_credit = choice.count > 0 && choice.credits > request.credits_keep;
  if (!has_credit || free_.count() == 0) return Status::no_space;
  RdmaBatch& batch = batches_[free_.next()];
  batches_touched_ = std::max<std::size_t>(batches_touched_, free_.next() + 1);
  batch.token = token;
  batch.route = route;
  batch.is_cancelled = batch.is_reset = batch.is_fenced = batch.is_culprit = false;
  batch.header = request.header;
  batch.pages = request.pages;
  batch.is_undone = false;
  batch.answered = 0;
  chooser_.share_out(batch, choice);
  // What one rail does not take waits for another one, if any took something.
  bool is_on = false;
  batch.parts_open = 0;
  for (std::uint8_t part = 0; part < batch.part_count; ++part) {
    if (batch.parts[part].state == PartState::over) continue;
    ++batch.parts_open;
    is_on |= post_part(batch, part, *choice.links[part]);
  }
  // A short one has its choice of all.
  for (std::size_t i = 1; batch.part_count == 1 && i < choice.count && !is_on; ++i) {
    is_on = post_part(batch, 0, *choice.links[i]);
  }
  if (!is_on) return Status::unsupported;
  (void)free_.take();
  batch.in_use = true;
  for (std::uint8_t part = 0; part < batch.part_count; ++part) {
    if (batch.parts[part].state == PartState::waiting) wait(batch);
  }
  has_posted_ = true;
  return Status::ok;
}

void RdmaRequester::list_waiting(RdmaBatch& batch) noexcept {
  if (std::exchange(batch.is_listed, true)) return;
  waiting_.push(static_cast<std::uint32_t>(batches_.index_of(batch)));
}

// What goes on waiting is no work: the agent may sleep.
int RdmaRequester::post_waiting() noexcept {
  int work = 0;
  for (std::uint32_t left = waiting_.size(); left > 0; --left) {
    RdmaBatch& batch = batches_[waiting_.pop()];
    batch.is_listed = false;
    if (batch.in_use) work += try_waiting(batch);
  }
  return work;
}

// Each part that waits goes out, goes on waiting, or is over. How many do not wait any more.
int RdmaRequester::try_waiting(RdmaBatch& batch) noexcept {
  int work = 0;
  for (std::uint8_t i = 0; i < batch.part_count && batch.in_use; ++i) {
    RdmaBatch::Part& part = batch.parts[i];
    if (part.state != PartState::waiting) continue;
    // With its last part the batch is another request's, perhaps.
    const bool is_last = batch.parts_open == 1;
    if (batch.is_cancelled || batch.is_reset) {
      const auto replies = std::span(batch.replies).subspan(part.first_page, part.page_count);
      std::fill(replies.begin(), replies.end(), PageReply{Status::cancelled, 0});
      // Who was reset is fenced, though it was on no link.
      batch.is_fenced |= batch.is_reset;
      batch.is_culprit |= batch.is_reset;
      end_part(batch, i);
      ++work;
      if (is_last) return work;
      continue;
    }
    if (batch.is_striped) {
      // Its link did not take it: the others wait for it in vain.
      lose_stripe(batch, i);
      ++work;
      if (is_last) return work;
      continue;
    }
    const RailChooser::Choice choice =
        chooser_.choose(batch.route, batch.pages[part.first_page].slice);
    bool is_on = false;
    for (std::size_t j = 0; j < choice.count && !is_on; ++j) {
      is_on = post_part(batch, i, *choice.links[j]);
    }
    if (!is_on && choice.is_reachable) {
      list_waiting(batch);
      continue;
    }
    ++work;
    if (is_on) continue;
    batch.is_fenced = true;
    end_part(batch, i);
    if (is_last) return work;
  }
  return work;
}

// ---- ends ----

void RdmaRequester::on_reply(RequestToken part, std::span<const PageReply> pages) noexcept {
  RdmaBatch& batch = batches_[part >> kPartBits];
  const auto number = static_cast<std::uint8_t>(part & ((1u << kPartBits) - 1));
  SIMM_CHECK(batch.in_use && batch.parts[number].state == PartState::out);
  if (batch.is_striped) return end_stripe(batch, number, pages);
  if (pages.size() == batch.pages.size()) {
    // All of it in one part: nothing has to be put together.
    const RequestToken token = batch.token;
    release(batch);
    events_->on_reply(token, pages);
    return;
  }
  std::copy(pages.begin(), pages.end(), batch.replies.begin() + batch.parts[number].first_page);
  end_part(batch, number);
}

void RdmaRequester::on_fenced(RequestToken part, FenceCause cause) noexcept {
  RdmaBatch& batch = batches_[part >> kPartBits];
  const auto number = static_cast<std::uint8_t>(part & ((1u << kPartBits) - 1));
  SIMM_CHECK(batch.in_use && batch.parts[number].state == PartState::out);
  if (batch.is_striped) {
    batch.is_culprit |= cause == FenceCause::reset;
    batch.is_fenced = true;
    return lose_stripe(batch, number);
  }
  // Again over another rail, where that does no harm and somebody still waits.
  RdmaBatch::Part& fenced = batch.parts[number];
  const bool is_wanted =
      is_read(batch.header.opcode) && !batch.is_reset && !batch.is_cancelled && !batch.is_fenced;
  if (is_wanted && !fenced.is_second_try && chooser_.is_reachable(batch.route)) {
    fenced.is_second_try = true;
    fenced.state = PartState::waiting;
    shared_.counters.asked_again.add(1);
    return wait(batch);
  }
  batch.is_fenced = true;
  batch.is_culprit |= cause == FenceCause::reset;
  end_part(batch, number);
}

void RdmaRequester::end_part(RdmaBatch& batch, std::uint8_t part) noexcept {
  batch.parts[part].state = PartState::over;
  if (--batch.parts_open > 0) return;
  if (batch.is_striped && batch.is_undone && ask_whole(batch)) return;
  const RequestToken token = batch.token;
  if (batch.is_fenced) {
    const FenceCause cause = batch.is_culprit ? FenceCause::reset : FenceCause::collateral;
    release(batch);
    return events_->on_fenced(token, cause);
  }
  // The replies stay as they are until the next request takes this place: after the upcall at the
  // earliest, because it is not free before.
  events_->on_reply(token, std::span(batch.replies).first(batch.pages.size()));
  release(batch);
}

void RdmaRequester::release(RdmaBatch& batch) noexcept {
  batch.in_use = false;
  batch.pages = {};
  free_.give(static_cast<std::uint32_t>(batches_.index_of(batch)));
}

void RdmaRequester::cancel(Route, RequestToken token) noexcept {
  RdmaBatch* const batch = find(token);
  if (batch == nullptr) return;
  batch->is_cancelled = true;
  cancel_parts(*batch);
}

void RdmaRequester::cancel_parts(const RdmaBatch& batch) noexcept {
  for (std::uint8_t part = 0; part < batch.part_count; ++part) {
    if (batch.parts[part].state != PartState::out) continue;
    const RequestToken wanted = part_token(batch, part);
    for (const auto& link : links_.used()) {
      if (link->cancel(wanted)) break;
    }
  }
  has_posted_ = true;
}

void RdmaRequester::reset(Route, RequestToken culprit) noexcept {
  RdmaBatch* const batch = find(culprit);
  if (batch == nullptr) return;
  batch->is_reset = true;
  for (std::uint8_t part = 0; part < batch->part_count; ++part) {
    if (batch->parts[part].state != PartState::out) continue;
    const RequestToken wanted = part_token(*batch, part);
    for (const auto& link : links_.used()) {
      if (link->reset(wanted)) break;
    }
  }
  has_posted_ = true;
}

// ---- stripes ----

// The server answers all stripes alike, each with its part of the bytes; unless some were not put
// together.
void RdmaRequester::end_stripe(RdmaBatch& batch, std::uint8_t part,
                               std::span<const PageReply> pages) noexcept {
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::size_t page = batch.parts[part].first_page + i;
    PageReply& whole = batch.replies[page];
    const auto bit = static_cast<std::uint16_t>(1u << page);
    if ((batch.answered & bit) == 0) {
      batch.answered = static_cast<std::uint16_t>(batch.answered | bit);
      whole = pages[i];
    } else if (whole.status != pages[i].status) {
      whole = {Status::cancelled, 0};
    } else if (batch.header.opcode == ipc::Opcode::get) {
      whole.bytes += pages[i].bytes;
    }
    if (whole.status == Status::cancelled) batch.is_undone = true;
  }
  if (batch.is_undone) return lose_stripe(batch, part);
  end_part(batch, part);
}

void RdmaRequester::lose_stripe(RdmaBatch& batch, std::uint8_t part) noexcept {
  batch.is_undone = true;
  batch.parts[part].state = PartState::over;
  cancel_parts(batch);
  end_part(batch, part);
}

// Nothing of it is under way now. False: nobody waits for it, nobody is there to be asked, or it
// may have been done: a server whose link was lost may have had all parts.
bool RdmaRequester::ask_whole(RdmaBatch& batch) noexcept {
  const bool may_be_done = batch.is_fenced && !is_read(batch.header.opcode);
  if (may_be_done || batch.is_reset || batch.is_cancelled || !chooser_.is_reachable(batch.route)) {
    batch.is_fenced |= !batch.is_cancelled;
    return false;
  }
  batch.is_striped = batch.is_undone = batch.is_fenced = batch.is_culprit = false;
  batch.part_count = batch.parts_open = 1;
  batch.parts[0] = {0, static_cast<std::uint16_t>(batch.pages.size()), PartState::waiting, true, 0};
  shared_.counters.asked_again.add(1);
  wait(batch);
  return true;
}

}  // namespace simm::transport
