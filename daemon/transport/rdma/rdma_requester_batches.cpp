// How the requests of an RdmaRequester are shared out over rails, and come together again.
#include <algorithm>
#include <utility>

#include "daemon/transport/rdma/rdma_requester.h"
#include "simm/check.h"

namespace simm::transport {

namespace {

// Tokens of parts.
constexpr unsigned kPartBits = 8;
static_assert(kRailsMax <= 1u << kPartBits);

}  // namespace

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

// ---- choosing ----

bool RdmaRequester::is_reachable(Route route) const noexcept {
  return std::any_of(links_.used().begin(), links_.used().end(),
                     [route](const auto& link) { return link->leads_to(route); });
}

RdmaRequester::Fitness RdmaRequester::fitness_of(const RdmaRequesterLink& link,
                                                 const memory::Slice& slice) const noexcept {
  const std::uint16_t rail = link.path().link().rail;
  const std::int32_t node = rail < config_.rails.size() ? config_.rails[rail].node : -1;
  const std::int32_t wanted = slice.region == nullptr ? -1 : slice.region->numa_node;
  const bool is_near = node < 0 || wanted < 0 || node == wanted;
  const KeysFound found = slice.length == 0 ? KeysFound::all : shared_.keys.look(rail, slice);
  if (found == KeysFound::all) return is_near ? Fitness::near : Fitness::far;
  // Where a near rail has failed, a far one is asked like it.
  return is_near && found != KeysFound::failed ? Fitness::near_unknown : Fitness::far_unknown;
}

RdmaRequester::Choice RdmaRequester::choose(Route route,
                                            const memory::Slice& slice) const noexcept {
  Choice choice;
  for (const auto& link : links_.used()) {
    if (!link->leads_to(route)) continue;
    choice.is_reachable = true;
    choice.credits += link->credits();
    const Fitness fitness = fitness_of(*link, slice);
    // A rail that would have to learn the memory first is not asked because a better one is busy.
    const bool counts = link->credits() > 0 || fitness >= Fitness::near_unknown;
    if (!counts || fitness > choice.fitness) continue;
    if (fitness < choice.fitness) choice.count = 0;
    choice.fitness = fitness;
    if (link->credits() == 0) continue;
    const std::uint16_t rail = link->path().link().rail;
    const auto known = std::span(choice.links).first(choice.count);
    const auto same = std::find_if(known.begin(), known.end(), [rail](const auto* one) {
      return one->path().link().rail == rail;
    });
    if (same == known.end()) {
      if (choice.count < choice.links.size()) choice.links[choice.count++] = link.get();
    } else if (link->bytes_out() < (*same)->bytes_out()) {
      *same = link.get();
    }
  }
  // The one with least to do comes first.
  std::sort(choice.links.begin(), choice.links.begin() + static_cast<std::ptrdiff_t>(choice.count),
            [](const auto* one, const auto* other) {
              return one->bytes_out() != other->bytes_out() ? one->bytes_out() < other->bytes_out()
                                                            : one->in_flight() < other->in_flight();
            });
  return choice;
}

std::uint64_t RdmaRequester::weight_of(const RdmaRequesterLink& link) const noexcept {
  const std::size_t rail = link.path().link().rail;
  const std::uint64_t speed = rail < config_.rails.size() ? config_.rails[rail].speed : 0;
  return speed == 0 ? 1 : speed;
}

// So that all rails are done at the same time, as far as pages in a row that are whole, or cut
// where they may be, allow it: each gets its part of all that is out and to be asked for, by its
// weight, less what is out on it already.
void RdmaRequester::share_out(RdmaBatch& batch, const Choice& choice) noexcept {
  std::uint64_t weights = 0;
  std::uint64_t bytes = payload_bytes_of(batch.pages);
  const std::uint64_t total = bytes;
  const bool is_spread = batch.is_striped || (total >= kSpreadBytesMin && choice.count > 1);
  const std::size_t rails = is_spread ? choice.count : 1;
  for (std::size_t i = 0; i < rails; ++i) {
    weights += weight_of(*choice.links[i]);
    bytes += choice.links[i]->bytes_out();
  }
  batch.part_count = static_cast<std::uint8_t>(rails);
  std::uint16_t page = 0;
  std::uint64_t offset = 0;  // in that page
  batch.stripe_count = 0;
  std::uint64_t given = 0;
  std::uint64_t due = 0;
  const auto page_count = static_cast<std::uint16_t>(batch.pages.size());
  for (std::size_t i = 0; i < rails; ++i) {
    RdmaBatch::Part& part = batch.parts[i];
    part = {page, 0, PartState::waiting, false, offset};
    const std::uint64_t share = bytes / weights * weight_of(*choice.links[i]);
    const std::uint64_t out = choice.links[i]->bytes_out();
    due += share > out ? share - out : 0;
    while (page < page_count && (i + 1 == rails || given < due)) {
      const std::uint64_t length = batch.pages[page].slice.length;
      std::uint64_t cut = length - offset;
      if (batch.is_striped && length > config_.stripe_bytes_min && i + 1 < rails) {
        cut = std::min(cut,
                       (due - given + kStripeStepBytes - 1) / kStripeStepBytes * kStripeStepBytes);
      }
      if (batch.is_striped) add_slice(batch, static_cast<std::uint8_t>(i), page, offset, cut);
      given += cut;
      offset += cut;
      ++part.page_count;
      if (offset < length) break;
      offset = 0;
      ++page;
    }
    if (part.page_count == 0) part.state = PartState::over;
    if (part.page_count > 0) ++batch.stripe_count;
  }
  // All of it went to one rail.
  if (batch.stripe_count == 1) batch.is_striped = false;
}

// ---- posting ----

bool RdmaRequester::post_part(RdmaBatch& batch, std::uint8_t part,
                              RdmaRequesterLink& link) noexcept {
  RdmaBatch::Part& posted = batch.parts[part];
  const Request request{batch.header, batch.pages.subspan(posted.first_page, posted.page_count)};
  if (batch.is_striped) {
    const Request stripe{batch.header, std::span(batch.stripes[part]).first(posted.page_count)};
    const wire::StripeBody said = stripe_of(batch, part);
    if (!link.post(part_token(batch, part), stripe, &said)) return false;
  } else if (!link.post(part_token(batch, part), request)) {
    return false;
  }
  posted.state = PartState::out;
  return true;
}

Status RdmaRequester::post(Route route, RequestToken token, const Request& request) noexcept {
  SIMM_CHECK(!request.pages.empty() && request.pages.size() <= ipc::kPagesPerSubmissionMax);
  Choice choice = choose(route, request.pages.front().slice);
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
  batch.is_striped = choose_stripes(batch, choice);
  if (batch.is_striped) batch.stripe_number = ++stripe_numbers_;
  share_out(batch, choice);
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

void RdmaRequester::wait(RdmaBatch& batch) noexcept {
  if (std::exchange(batch.is_listed, true)) return;
  waiting_.push(static_cast<std::uint32_t>(batches_.index_of(batch)));
}

int RdmaRequester::post_waiting() noexcept {
  int work = 0;
  for (std::uint32_t left = waiting_.size(); left > 0; --left, ++work) {
    RdmaBatch& batch = batches_[waiting_.pop()];
    batch.is_listed = false;
    if (batch.in_use) try_waiting(batch);
  }
  return work;
}

// Each part that waits goes out, goes on waiting, or is over.
void RdmaRequester::try_waiting(RdmaBatch& batch) noexcept {
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
      if (is_last) return;
      continue;
    }
    if (batch.is_striped) {
      // Its link did not take it: the others wait for it in vain.
      lose_stripe(batch, i);
      if (is_last) return;
      continue;
    }
    const Choice choice = choose(batch.route, batch.pages[part.first_page].slice);
    bool is_on = false;
    for (std::size_t j = 0; j < choice.count && !is_on; ++j) {
      is_on = post_part(batch, i, *choice.links[j]);
    }
    if (is_on) continue;
    if (choice.is_reachable) {
      wait(batch);
      continue;
    }
    batch.is_fenced = true;
    end_part(batch, i);
    if (is_last) return;
  }
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
  // Again over another rail, unless nobody waits for it any more.
  RdmaBatch::Part& fenced = batch.parts[number];
  const bool is_wanted = !batch.is_reset && !batch.is_cancelled && !batch.is_fenced;
  if (is_wanted && !fenced.is_second_try && is_reachable(batch.route)) {
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

}  // namespace simm::transport
