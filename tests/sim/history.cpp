#include "tests/sim/history.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::sim {
namespace {

// Fewer may be those of several puts.
constexpr std::size_t kTellingBytes = 8;
// Instead of the number of a put, where all puts of a key write the same.
constexpr std::uint64_t kOnlyValue = ~std::uint64_t{0};

// Times in a report count from the start of the run, in microseconds.
unsigned long long us(base::TimeNs at) {
  return at == kNever ? 0 : (at - 1'000 * kSecond) / kUs;
}

}  // namespace

KeyIndex History::key(const KeyName& name) {
  const auto [found, fresh] = index_.try_emplace(name, static_cast<KeyIndex>(keys_.size()));
  if (fresh) keys_.push_back(Key{name, {}, {}, {}, {}, {}});
  return found->second;
}

std::string History::describe(KeyIndex key) const {
  const KeyName& name = keys_[key].name;
  return "tenant " + std::to_string(name.tenant.value) + " namespace " +
         std::to_string(name.name_space.value) + " key '" + name.text.substr(0, 48) + "'";
}

Interval History::begin() const {
  return Interval{loop_.now_ns(), kNever, lease_losses()};
}

Payload History::payload(PutIndex put) const {
  const KeyIndex key = puts_[put].key;
  return Payload::of(key, is_immutable(key) ? kOnlyValue : put);
}

// ---- writes ----

PutIndex History::begin_put(KeyIndex key, bool replace, std::uint64_t length, std::uint64_t ttl_ns,
                            const std::byte* source) {
  const auto put = static_cast<PutIndex>(puts_.size());
  Put& added = puts_.emplace_back();
  added.key = key;
  added.replace = replace;
  added.length = length;
  added.ttl_ns = ttl_ns;
  added.from_ns = loop_.now_ns();
  const std::vector<PutIndex>& others = keys_[key].puts;
  SIMM_CHECK(!is_immutable(key) || others.empty() || puts_[others[0]].length == length);
  keys_[key].puts.push_back(put);
  sources_[source] = put;
  return put;
}

void History::end_put(PutIndex put, Status status) {
  Put& ended = puts_[put];
  ended.over = true;
  ended.over_ns = loop_.now_ns();
  if (status != Status::ok) return;
  ended.to_ns = loop_.now_ns();
  ++puts_done_;
  if (ended.replace) {
    keys_[ended.key].superseders.push_back(
        {ended.from_ns, ended.to_ns, put, ended.tenure, ended.node, true});
  }
}

std::size_t History::begin_remove(KeyIndex key) {
  keys_[key].removals.push_back({loop_.now_ns(), kNever, {}});
  return keys_[key].removals.size() - 1;
}

void History::end_remove(KeyIndex key, std::size_t removal, Status status) {
  if (status != Status::ok && status != Status::not_found) return;
  Removal& ended = keys_[key].removals[removal];
  ended.to_ns = loop_.now_ns();
  for (auto at = keys_[key].answers.rbegin(); at != keys_[key].answers.rend(); ++at) {
    if (at->at_ns < ended.from_ns) break;
    if (at->opcode != ipc::Opcode::remove) continue;
    base::Epoch& since = ended.since[at->tenure.is_mirror ? 1 : 0];
    since = std::max(since, at->tenure.since);
  }
  const Answer* answer = answer_to(key, ended.from_ns, ipc::Opcode::remove, status, nullptr);
  if (answer == nullptr) {
    return report_.violation("P2", "%s: a remove is answered, but not by any owner",
                             describe(key).c_str());
  }
  if (ambiguous(key, ended.from_ns, *answer)) return;
  keys_[key].superseders.push_back({ended.from_ns, ended.to_ns, kNoPut, answer->tenure,
                                    node_of(key, ended.from_ns, *answer), true});
}

// ---- reads ----

base::TimeNs History::effect_by(const Put& put) const {
  const bool all_ended = put.over && put.requests_open == 0;
  const base::TimeNs ended_ns = all_ended ? put.effect_by_ns : kNever;
  if (is_replicated(put.key)) return ended_ns;  // who has seen one copy has not seen the other
  return put.over ? std::min(ended_ns, put.first_seen_ns) : ended_ns;
}

bool History::refused(const Put& put) const {
  return put.over && put.requests_open == 0 && !put.copies[0].may_be_stored() &&
         !put.copies[1].may_be_stored() && !put.is_asked_again;
}

bool History::expired(const Put& put, base::TimeNs read_from_ns) const {
  const base::TimeNs by_ns = effect_by(put);
  return put.ttl_ns != 0 && by_ns != kNever && read_from_ns > by_ns + put.ttl_ns;
}

// All tenures of a slot are one row. What an owner has left may have moved on along the row.
bool History::may_show(const Put& put, const Tenure& reader) const {
  return put.tenure == reader || (moves && put.tenure.since < reader.since);
}

template <typename Counts>
const History::Superseder* History::find_superseder(PutIndex put, const Tenure& reader,
                                                    Counts counts) const {
  const Put& ended = puts_[put];
  const base::TimeNs by_ns = effect_by(ended);
  if (!ended.over) return nullptr;
  for (const Superseder& other : keys_[ended.key].superseders) {
    if (other.put == put) continue;
    const bool is_of_row =
        ended.tenure.since <= other.tenure.since && other.tenure.since <= reader.since &&
        (other.tenure.since != ended.tenure.since || other.tenure == ended.tenure);
    if (!is_of_row) continue;
    // What its node asks for later is done behind it, or it is not done at all.
    const base::TimeNs last_ns = other.node == ended.node ? std::min(by_ns, ended.over_ns) : by_ns;
    if (other.from_ns > last_ns && counts(other)) return &other;
  }
  return nullptr;
}

const History::Superseder* History::superseder_of(PutIndex put, const Tenure& reader,
                                                  base::TimeNs read_from_ns) const {
  return find_superseder(put, reader,
                         [&](const Superseder& other) { return other.to_ns < read_from_ns; });
}

const History::Superseder* History::superseder_of_copy(PutIndex put, const Tenure& reader,
                                                       const PageRead& read) const {
  return find_superseder(put, reader, [&](const Superseder& other) {
    const bool is_own = other.is_write && other.node == read.node;
    return other.to_ns + (is_own ? 0 : read.linger_ns) < read.when.from_ns;
  });
}

PutIndex History::find_put(const PageRead& read, std::span<const std::byte> bytes) const {
  const std::vector<PutIndex>& puts = keys_[read.key].puts;
  for (auto put = puts.rbegin(); put != puts.rend(); ++put) {
    if (bytes.size() + read.object_offset > puts_[*put].length) continue;
    if (payload(*put).matches(bytes, read.object_offset)) return *put;
  }
  return kNoPut;
}

PutIndex History::checked_bytes(const PageRead& read, std::span<const std::byte> bytes) {
  const PutIndex seen = find_put(read, bytes);
  if (seen == kNoPut) check_bytes_of_nobody(read, bytes);
  if (seen == kNoPut || bytes.size() < kTellingBytes) return kNoPut;
  check_length(read, puts_[seen], bytes.size());
  return seen;
}

PutIndex History::put_seen(const PageRead& read, std::span<const std::byte> bytes) {
  const PutIndex seen = checked_bytes(read, bytes);
  if (seen == kNoPut || !refused(puts_[seen])) return seen;
  report_.violation("P4", "%s: sees put %u, which its owner did not store",
                    describe(read.key).c_str(), seen);
  return kNoPut;
}

void History::check_bytes_of_nobody(const PageRead& read, std::span<const std::byte> bytes) {
  // Whose are they? Mixed bytes begin with somebody's.
  const auto head = bytes.first(std::min<std::size_t>(bytes.size(), 16));
  for (PutIndex put = 0; put < puts_.size(); ++put) {
    if (!payload(put).matches(head, read.object_offset)) continue;
    const KeyName& theirs = keys_[puts_[put].key].name;
    const bool foreign = theirs.tenant != keys_[read.key].name.tenant;
    return report_.violation(foreign ? "P6" : "P1",
                             "%s: %zu bytes at %llu begin like put %u (%llu bytes) of %s, %s",
                             describe(read.key).c_str(), bytes.size(), ull(read.object_offset), put,
                             ull(puts_[put].length), describe(puts_[put].key).c_str(),
                             payload(put).matches(bytes, read.object_offset) ? "whole" : "mixed");
  }
  report_.violation("P1", "%s: %zu bytes at %llu of no put", describe(read.key).c_str(),
                    bytes.size(), ull(read.object_offset));
}

void History::check_length(const PageRead& read, const Put& put, std::uint64_t bytes) {
  const std::uint64_t left = put.length - read.object_offset;
  const bool whole = !read.ranged;
  const std::uint64_t expected = whole ? put.length : std::min(left, read.view_bytes);
  const bool exact_missed =
      read.exact_size && (whole ? put.length != read.view_bytes : read.view_bytes > left);
  if (bytes != expected || bytes > read.view_bytes || exact_missed) {
    report_.violation("P1", "%s: %llu bytes into a view of %llu, object %llu, offset %llu%s",
                      describe(read.key).c_str(), ull(bytes), ull(read.view_bytes), ull(put.length),
                      ull(read.object_offset), read.exact_size ? ", exact size" : "");
  }
}

void History::end_get(const PageRead& read, Status status, std::span<const std::byte> bytes) {
  if (status != Status::ok && status != Status::not_found) return;
  const Answer* answer =
      answer_to(read.key, read.when.from_ns, ipc::Opcode::get, status, bytes.data());
  if (answer == nullptr && read.linger_ns > 0) return end_copied_get(read, status, bytes);
  if (status == Status::not_found) return check_miss(read, answer);
  ++hits_;
  if (bytes.empty()) {
    return report_.violation("P1", "%s: a hit of no bytes", describe(read.key).c_str());
  }
  if (answer == nullptr) {
    return report_.violation("P1", "%s: a hit that no owner has answered",
                             describe(read.key).c_str());
  }
  if (is_immutable(read.key)) {
    check_only_value(read, bytes, {answer}, false);
    return note_lease(read, answer->tenure);
  }
  const PutIndex seen = put_seen(read, bytes);
  if (seen == kNoPut) return;
  Put& put = puts_[seen];
  if (!may_show(put, answer->tenure)) {
    return report_.violation(
        "P7", "%s: sees put %u of server %u, owner since %llu, from server %u, owner since %llu",
        describe(read.key).c_str(), seen, put.tenure.owner, ull(put.tenure.since),
        answer->tenure.owner, ull(answer->tenure.since));
  }
  if (expired(put, read.when.from_ns)) {
    return report_.violation("P4", "%s: sees put %u after its TTL", describe(read.key).c_str(),
                             seen);
  }
  if (const Superseder* later = superseder_of(seen, answer->tenure, read.when.from_ns)) {
    return report_.violation("P4", "%s: sees put %u (effect by %llu us) after %s at %llu..%llu us",
                             describe(read.key).c_str(), seen, us(effect_by(put)),
                             later->put == kNoPut ? "a remove" : "another value",
                             us(later->from_ns), us(later->to_ns));
  }
  keys_[read.key].superseders.push_back(
      {read.when.from_ns, loop_.now_ns(), seen, answer->tenure, answer->node});
  put.first_seen_ns = std::min(put.first_seen_ns, loop_.now_ns());
  note_lease(read, answer->tenure);
}

// The bytes do not say which put wrote them: one that may be there will do.
void History::check_only_value(const PageRead& read, std::span<const std::byte> bytes,
                               const Sources& sources, bool is_copy) {
  if (checked_bytes(read, bytes) == kNoPut) return;
  const std::vector<PutIndex>& puts = keys_[read.key].puts;
  const bool possible = std::any_of(sources.begin(), sources.end(), [&](const Answer* source) {
    return std::any_of(puts.begin(), puts.end(), [&](PutIndex put) {
      return may_be_there(put, source->tenure, read, is_copy);
    });
  });
  if (possible) return;
  report_.violation("P4", "%s: %s of %zu bytes, but no such object can be there",
                    describe(read.key).c_str(), is_copy ? "a copy" : "a hit", bytes.size());
}

bool History::may_be_there(PutIndex put, const Tenure& reader, const PageRead& read,
                           bool is_copy) const {
  if (refused(puts_[put])) return false;
  const base::TimeNs from_ns = read.when.from_ns - (is_copy ? read.linger_ns : 0);
  if (expired(puts_[put], from_ns)) return false;
  if (is_replicated(read.key)) return !is_removed(put, reader, from_ns);
  if (!may_show(puts_[put], reader)) return false;
  const Superseder* const later = is_copy ? superseder_of_copy(put, reader, read)
                                          : superseder_of(put, reader, read.when.from_ns);
  return later == nullptr;
}

// Both copies were there, if at all, before a remove began that was answered before the read. Who
// reads in an earlier tenure than that of the remove does not know of it.
bool History::is_removed(PutIndex put, const Tenure& reader, base::TimeNs read_from_ns) const {
  const base::TimeNs by_ns = effect_by(puts_[put]);
  const std::vector<Removal>& removals = keys_[puts_[put].key].removals;
  return std::any_of(removals.begin(), removals.end(), [&](const Removal& removal) {
    return removal.from_ns > by_ns && removal.to_ns < read_from_ns &&
           removal.since[reader.is_mirror ? 1 : 0] <= reader.since;
  });
}

// Answers to that node from which the copy counts: to fetches that may have become it, and to
// questions whether its owner has it still, as clients of the node ask them too.
History::Sources History::fetches_for(const PageRead& read, Status status) const {
  Sources found;
  const std::byte* const end = read.copies.data() + read.copies.size();
  const std::vector<Answer>& answers = keys_[read.key].answers;
  for (auto at = answers.rbegin(); at != answers.rend(); ++at) {
    if (at->at_ns + read.linger_ns < read.when.from_ns) break;
    if (at->node != read.node || at->status != status) continue;
    const bool is_fetch =
        at->opcode == ipc::Opcode::get && at->slice >= read.copies.data() && at->slice < end;
    const bool confirms =
        read.immutable && at->opcode == ipc::Opcode::exists && status == Status::ok;
    if (is_fetch || confirms) found.push_back(&*at);
  }
  return found;
}

void History::end_copied_get(const PageRead& read, Status status,
                             std::span<const std::byte> bytes) {
  const Sources fetches = fetches_for(read, status);
  if (status == Status::not_found) {
    // A fetch from before the lease says nothing about it.
    const bool is_later = !fetches.empty() && fetches.back()->at_ns >= read.when.from_ns &&
                          fetches.back()->posted_ns > keys_[read.key].lease.when.to_ns;
    return check_miss(read, is_later ? fetches.front() : nullptr);
  }
  ++hits_;
  ++copied_;
  if (fetches.empty()) {
    return report_.violation("P4", "%s: a copy that is older than %llu us, or of no fetch",
                             describe(read.key).c_str(), ull(read.linger_ns / kUs));
  }
  if (is_immutable(read.key)) {
    check_only_value(read, bytes, fetches, true);
    return note_lease_of_copy(read, fetches);
  }
  const PutIndex seen = put_seen(read, bytes);
  if (seen == kNoPut) return;
  Put& put = puts_[seen];
  const base::TimeNs from_ns = read.when.from_ns - read.linger_ns;
  if (expired(put, from_ns)) {
    return report_.violation("P4", "%s: a copy is put %u, long after its TTL",
                             describe(read.key).c_str(), seen);
  }
  const Superseder* later = nullptr;
  for (const Answer* fetch : fetches) {
    if (!may_show(put, fetch->tenure)) continue;
    later = superseder_of_copy(seen, fetch->tenure, read);
    if (later != nullptr) continue;
    keys_[read.key].superseders.push_back(
        {from_ns, loop_.now_ns(), seen, fetch->tenure, fetch->node});
    put.first_seen_ns = std::min(put.first_seen_ns, loop_.now_ns());
    return note_lease_of_copy(read, fetches);
  }
  if (later == nullptr) {
    return report_.violation("P7", "%s: a copy is put %u of server %u, owner since %llu",
                             describe(read.key).c_str(), seen, put.tenure.owner,
                             ull(put.tenure.since));
  }
  report_.violation("P4", "%s: a copy is put %u (effect by %llu us) after %s at %llu..%llu us",
                    describe(read.key).c_str(), seen, us(effect_by(put)),
                    later->put == kNoPut ? "a remove" : "another value", us(later->from_ns),
                    us(later->to_ns));
}

void History::end_exists(const PageRead& read, Status status, std::uint64_t length) {
  if (status != Status::ok && status != Status::not_found) return;
  const Answer* answer =
      answer_to(read.key, read.when.from_ns, ipc::Opcode::exists, status, nullptr);
  if (status == Status::not_found) return check_miss(read, answer);
  ++hits_;
  if (answer == nullptr) {
    return report_.violation("P1", "%s: exists, but no owner has said so",
                             describe(read.key).c_str());
  }
  const bool unknown = ambiguous(read.key, read.when.from_ns, *answer);
  const std::vector<PutIndex>& puts = keys_[read.key].puts;
  const bool possible = std::any_of(puts.begin(), puts.end(), [&](PutIndex put) {
    if (is_replicated(read.key)) {
      return puts_[put].length == length && may_exist_twice(put, read, *answer);
    }
    return puts_[put].length == length && !refused(puts_[put]) &&
           (unknown || may_show(puts_[put], answer->tenure)) &&
           !expired(puts_[put], read.when.from_ns) &&
           superseder_of(put, unknown ? puts_[put].tenure : answer->tenure, read.when.from_ns) ==
               nullptr;
  });
  if (!possible) {
    return report_.violation("P4", "%s: exists with %llu bytes, but no such object can be there",
                             describe(read.key).c_str(), ull(length));
  }
  if (!unknown) note_lease(read, answer->tenure);
}

// Either copy may have said so.
bool History::may_exist_twice(PutIndex put, const PageRead& read, const Answer& answer) const {
  const std::vector<Answer>& answers = keys_[read.key].answers;
  for (auto at = answers.rbegin(); at != answers.rend() && at->at_ns >= read.when.from_ns; ++at) {
    if (at->is_like(answer) && may_be_there(put, at->tenure, read, false)) return true;
  }
  return false;
}

void History::note_lease(const PageRead& read, Tenure tenure) {
  Key& key = keys_[read.key];
  const base::TimeNs until_ns = read.when.from_ns + read.lease_ns;
  const bool same = key.lease.tenure == tenure;
  if (same && until_ns <= key.lease.until_ns && !loss_is_explained(key)) return;
  key.lease.tenure = tenure;
  key.lease.when = read.when;
  key.lease.when.to_ns = loop_.now_ns();
  key.lease.until_ns = until_ns;
}

// Its owner has given it for a fetch, or for a question: one of those that may have been it.
void History::note_lease_of_copy(const PageRead& read, const Sources& sources) {
  PageRead asked = read;
  for (const Answer* source : sources) {
    if (!(source->tenure == sources[0]->tenure)) return;  // nobody knows which owner's
    asked.when.from_ns = std::min(asked.when.from_ns, source->posted_ns);
  }
  asked.when.lease_losses = losses_at(asked.when.from_ns);
  note_lease(asked, sources[0]->tenure);
}

void History::note_losses() {
  const std::uint64_t lost = lease_losses();
  if (lost != losses_.back().second) losses_.emplace_back(loop_.now_ns(), lost);
}

std::uint64_t History::losses_at(base::TimeNs at_ns) const {
  const auto first =
      std::lower_bound(losses_.begin(), losses_.end(), std::pair{at_ns, std::uint64_t{0}});
  const bool is_then = first != losses_.end() && first->first == at_ns;
  return is_then ? first->second : std::prev(first)->second;
}

void History::check_miss(const PageRead& read, const Answer* answer) {
  ++misses_;
  const Key& key = keys_[read.key];
  const Lease& lease = key.lease;
  const bool inside = lease.when.to_ns < read.when.from_ns && loop_.now_ns() < lease.until_ns;
  // An owner that could not be asked says nothing about what it holds.
  if (!inside || answer == nullptr || loss_is_explained(key)) return;
  if (is_replicated(read.key)) answer = answer_of_leased(read, *answer);
  if (answer == nullptr) return;
  const bool is_known = is_replicated(read.key) || !ambiguous(read.key, read.when.from_ns, *answer);
  if (!(answer->tenure == lease.tenure) || !is_known) return;
  report_.violation("P3", "%s: a miss without a cause, leased at %llu..%llu us until %llu us",
                    describe(read.key).c_str(), us(lease.when.from_ns), us(lease.when.to_ns),
                    us(lease.until_ns));
}

// Of the copy that has the lease: the last word is the other one's.
const History::Answer* History::answer_of_leased(const PageRead& read, const Answer& last) const {
  const Key& key = keys_[read.key];
  for (auto at = key.answers.rbegin(); at != key.answers.rend(); ++at) {
    if (at->at_ns < read.when.from_ns) break;
    if (at->posted_ns < read.when.from_ns || !at->is_like(last)) continue;
    if (at->tenure == key.lease.tenure) return &*at;
  }
  return nullptr;
}

bool History::loss_is_explained(const Key& key) const {
  const Lease& lease = key.lease;
  if (lease.when.lease_losses != lease_losses()) return true;
  for (const Removal& removal : key.removals) {
    if (removal.to_ns >= lease.when.from_ns) return true;
  }
  for (const PutIndex index : key.puts) {
    const Put& put = puts_[index];
    const base::TimeNs by_ns = effect_by(put);
    if (put.replace && by_ns >= lease.when.from_ns) return true;
    // A lease ends with the object's TTL.
    const bool may_have_expired = put.ttl_ns != 0 && put.from_ns + put.ttl_ns <= loop_.now_ns();
    const bool may_be_leased = by_ns == kNever || by_ns + put.ttl_ns >= lease.when.from_ns;
    if (may_have_expired && may_be_leased) return true;
    // Of one that has moved a part of its time is lost on the way.
    if (moves && put.ttl_ns != 0 && put.tenure.since < lease.tenure.since) return true;
  }
  return false;
}

}  // namespace simm::sim
