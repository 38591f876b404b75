#include "daemon/server/expected_objects.h"

#include <algorithm>
#include <bit>

#include "simm/check.h"

namespace simm::server {

using transport::MovedNote;
using transport::PageReply;
using transport::PageRequest;

ExpectedObjects::ExpectedObjects(const ServerConfig& config, const SlotArrivals& arrivals,
                                 ServerCounters& counters)
    : config_(config),
      arrivals_(arrivals),
      counters_(counters),
      entries_(std::size_t{2} * config.expected_objects_max),
      tellers_(std::make_unique<Teller[]>(kTellersMax)) {
  SIMM_CHECK(std::has_single_bit(config.expected_objects_max));
  teller_of_slot_.fill(kNobody);
}

void ExpectedObjects::use_map(const base::SlotOwnership& before, const base::SlotOwnership& now,
                              base::TimeNs now_ns) noexcept {
  has_news_ = true;
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    if (now.since[i] == before.since[i]) continue;
    const auto slot = static_cast<base::Slot>(i);
    teller_of_slot_[slot] = kNobody;
    awaited_[slot] = now.has_former_owners && arrivals_.is_open(slot, now.since[slot]);
    if (!awaited_[slot]) continue;
    opened_ns_ = now_ns;
    told_by_ns_ = now_ns + config_.told_wait_ns;
  }
  // What was wanted of a slot that has gone comes no more, and that is no fault of its owner.
  for (std::uint32_t at = wants_used_; at-- > 0;) {
    if (teller_of_slot_[wants_[at].slot] != wants_[at].teller) drop_want(at);
  }
}

// ---- what is expected ----

ExpectedObjects::Entry& ExpectedObjects::entry_of(std::uint64_t name) noexcept {
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = name & mask;
  // Ends: half of the places are free.
  while (entries_[at].name != 0 && entries_[at].name != name) at = (at + 1) & mask;
  return entries_[at];
}

void ExpectedObjects::expect(std::uint64_t name, std::uint64_t token) noexcept {
  Entry& entry = entry_of(name);
  if (entry.name == 0) {
    if (entries_used_ == config_.expected_objects_max) return;  // a miss until it has moved
    ++entries_used_;
    entry.name = name;
  }
  if (entry.token == 0) ++live_;
  entry.token = token;
}

bool ExpectedObjects::awaits(base::Slot slot, base::KeyHash key, base::TenantId tenant,
                             base::TimeNs now_ns) noexcept {
  if (!arrivals_.may_still_come(slot, key)) return false;
  const Entry& entry = entry_of(arrivals_.name_of(slot, key));
  if (entry.name == 0) return is_awaited(slot, now_ns);
  return entry.token != 0 && ask(entry, slot, tenant, now_ns);
}

bool ExpectedObjects::has_room_for(base::TenantId tenant) const noexcept {
  const auto has = std::count_if(wants_.begin(), wants_.begin() + wants_used_,
                                 [tenant](const Want& want) { return want.tenant == tenant; });
  return static_cast<std::uint32_t>(has) < kTenantFactor * (kWantsMax - wants_used_);
}

bool ExpectedObjects::ask(const Entry& entry, base::Slot slot, base::TenantId tenant,
                          base::TimeNs now_ns) noexcept {
  const bool is_asked = std::any_of(wants_.begin(), wants_.begin() + wants_used_,
                                    [&](const Want& want) { return want.name == entry.name; });
  if (is_asked) return true;
  const std::uint16_t teller = teller_of_slot_[slot];
  if (teller == kNobody) return is_awaited(slot, now_ns);
  if (tellers_[teller].silent_until_ns > now_ns) return false;
  if (!has_room_for(tenant)) return true;  // it waits for room as well
  wants_[wants_used_++] = {
      entry.name, entry.token, tenant, slot, teller, false, now_ns + config_.want_ns};
  ++wants_unsaid_;
  counters_.read_through_asked.add();
  return true;
}

void ExpectedObjects::end_name(std::uint64_t name) noexcept {
  Entry& entry = entry_of(name);
  if (entry.name == 0 || entry.token == 0) return;
  entry.token = 0;
  --live_;
  for (std::uint32_t at = 0; at < wants_used_; ++at) {
    if (wants_[at].name == name) {
      drop_want(at);
      break;
    }
  }
  has_news_ = true;
}

void ExpectedObjects::drop_want(std::uint32_t at) noexcept {
  if (!wants_[at].is_said) --wants_unsaid_;
  wants_[at] = wants_[--wants_used_];
}

// ---- what former owners say ----

void ExpectedObjects::take(transport::Incoming& incoming, base::TimeNs now_ns,
                           std::span<PageReply> scratch) noexcept {
  const bool is_call = static_cast<MovedNote>(incoming.pages[0].depth) == MovedNote::call;
  if (is_call && hold(incoming, now_ns)) return;
  if (!is_call) learn(incoming, now_ns);
  // Who calls in vain shall not call again at once.
  const Status status = is_call ? Status::not_found : Status::ok;
  const auto replies = scratch.first(incoming.pages.size());
  std::fill(replies.begin(), replies.end(), PageReply{status, 0});
  incoming.responder->reply(incoming, replies);
}

std::uint16_t ExpectedObjects::teller_of(const transport::Incoming& incoming,
                                         const PageRequest& page) noexcept {
  for (std::uint16_t at = 0; at < tellers_used_; ++at) {
    const Teller& teller = tellers_[at];
    if (teller.requester_id == incoming.requester_id && teller.shard == page.hash.low) return at;
  }
  if (tellers_used_ == kTellersMax) return kNobody;
  tellers_[tellers_used_] = {incoming.requester_id, page.hash.low, nullptr, 0, 0};
  return tellers_used_++;
}

void ExpectedObjects::learn(const transport::Incoming& incoming, base::TimeNs now_ns) noexcept {
  has_news_ = true;
  if (now_ns < told_by_ns_) {
    told_by_ns_ =
        std::min(now_ns + config_.told_wait_ns, opened_ns_ + kToldWaitsMax * config_.told_wait_ns);
  }
  for (const PageRequest& page : incoming.pages) {
    const base::Slot slot = base::slot_of(page.group);
    if (!arrivals_.is_open(slot, incoming.header.epoch)) continue;
    switch (static_cast<MovedNote>(page.depth)) {
      case MovedNote::object:
        if (arrivals_.may_still_come(slot, page.hash) && page.digest != 0) {
          expect(arrivals_.name_of(slot, page.hash), page.digest);
        }
        break;
      case MovedNote::slot_told:
        awaited_.reset(slot);
        teller_of_slot_[slot] = teller_of(incoming, page);
        break;
      case MovedNote::call:
        break;
    }
  }
}

bool ExpectedObjects::hold(transport::Incoming& incoming, base::TimeNs now_ns) noexcept {
  if (is_over() || incoming.pages.size() > transport::kWantsPerCallMax) return false;
  const std::uint16_t at = teller_of(incoming, incoming.pages[0]);
  if (at == kNobody) return false;
  // What it was asked for and has no more.
  for (const PageRequest& page : incoming.pages) {
    if (page.digest == 0) continue;
    for (std::uint32_t want = 0; want < wants_used_; ++want) {
      if (wants_[want].token != page.digest || wants_[want].teller != at) continue;
      end_name(wants_[want].name);
      break;
    }
  }
  Teller& teller = tellers_[at];
  if (teller.call != nullptr) answer_call(at);  // that one was given up
  const base::TimeNs left_ns =
      incoming.header.deadline_ns > now_ns ? incoming.header.deadline_ns - now_ns : 0;
  teller.call = &incoming;
  teller.call_ends_ns = now_ns + std::min(left_ns / 2, config_.want_ns);
  call_ends_ns_ = std::min(call_ends_ns_, teller.call_ends_ns);
  ++calls_;
  return true;
}

void ExpectedObjects::end_call(transport::Incoming& incoming, bool is_cancelled) noexcept {
  for (std::uint16_t at = 0; at < tellers_used_; ++at) {
    if (tellers_[at].call != &incoming) continue;
    if (is_cancelled) return answer_call(at);
    tellers_[at].call = nullptr;
    --calls_;
    return;
  }
  SIMM_CHECK(false);
}

// With as many as it has pages for.
void ExpectedObjects::answer_call(std::uint16_t at) noexcept {
  transport::Incoming& call = *tellers_[at].call;
  tellers_[at].call = nullptr;
  --calls_;
  std::array<PageReply, transport::kWantsPerCallMax> replies;
  replies.fill({Status::ok, 0});
  const std::size_t count = std::min(call.pages.size(), replies.size());
  std::size_t said = 0;
  for (std::uint32_t want = 0; want < wants_used_ && said < count; ++want) {
    if (wants_[want].teller != at || wants_[want].is_said) continue;
    wants_[want].is_said = true;
    --wants_unsaid_;
    replies[said++].bytes = wants_[want].token;
  }
  call.responder->reply(call, std::span(replies).first(count));
}

// ---- turns ----

int ExpectedObjects::answer_calls(base::TimeNs now_ns) noexcept {
  if (calls_ == 0 || (wants_unsaid_ == 0 && now_ns < call_ends_ns_ && !is_over())) return 0;
  int answered = 0;
  call_ends_ns_ = base::kNoDeadline;
  for (std::uint16_t at = 0; at < tellers_used_; ++at) {
    const Teller& teller = tellers_[at];
    if (teller.call == nullptr) continue;
    const bool is_wanted =
        std::any_of(wants_.begin(), wants_.begin() + wants_used_,
                    [at](const Want& want) { return want.teller == at && !want.is_said; });
    if (is_wanted || now_ns >= teller.call_ends_ns || is_over()) {
      answer_call(at);
      ++answered;
    } else {
      call_ends_ns_ = std::min(call_ends_ns_, teller.call_ends_ns);
    }
  }
  return answered;
}

int ExpectedObjects::end_late_wants(base::TimeNs now_ns) noexcept {
  int ended = 0;
  for (std::uint32_t at = wants_used_; at-- > 0;) {
    const Want want = wants_[at];
    if (now_ns < want.ends_ns) continue;
    tellers_[want.teller].silent_until_ns = now_ns + config_.silent_ns;
    counters_.read_through_late.add();
    end_name(want.name);
    ++ended;
  }
  return ended;
}

int ExpectedObjects::do_work(base::TimeNs now_ns) noexcept {
  int work = 0;
  if (now_ns >= told_by_ns_) told_by_ns_ = 0;
  if (wants_used_ > 0) work += end_late_wants(now_ns);
  work += answer_calls(now_ns);
  if (is_over() && tellers_used_ > 0) forget_all();
  return work;
}

base::TimeNs ExpectedObjects::next_deadline_ns() const noexcept {
  base::TimeNs next_ns = calls_ > 0 ? call_ends_ns_ : base::kNoDeadline;
  for (std::uint32_t at = 0; at < wants_used_; ++at)
    next_ns = std::min(next_ns, wants_[at].ends_ns);
  return next_ns;
}

void ExpectedObjects::forget_all() noexcept {
  SIMM_CHECK(calls_ == 0);
  tellers_used_ = 0;
  teller_of_slot_.fill(kNobody);
  wants_used_ = wants_unsaid_ = 0;
  awaited_.reset();
  if (entries_used_ > 0) entries_.forget();
  entries_used_ = live_ = 0;
  told_by_ns_ = 0;
  has_news_ = true;
}

}  // namespace simm::server
