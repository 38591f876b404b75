#include "daemon/shared_reads/shared_read_room.h"

#include <cstring>

#include "simm/check.h"

namespace simm::shared_reads {

using store::kNone;

namespace {

// Whether one who asks for `asked_ms` has that with a fetch that asked for `given_ms`. Zero is the
// owner's own choice, which nobody here knows.
bool lease_is_enough(std::uint32_t given_ms, std::uint32_t asked_ms) noexcept {
  return asked_ms == given_ms || (asked_ms != 0 && given_ms > asked_ms);
}

}  // namespace

SharedReadRoom::SharedReadRoom(const SharedReadConfig& config, const base::Clock& clock,
                               const engine::WriteMarks& marks, SharedReadCounters& counters,
                               const Tables& tables, std::uint64_t bytes)
    : config_(config),
      clock_(clock),
      marks_(marks),
      counters_(counters),
      shared_reads_(tables.shared_reads),
      index_(tables.index),
      extents_(tables.blocks, bytes),
      shares_(config.tenants_max, {extents_.arena_bytes(), config.shared_reads_max,
                                   config.waiters_max, config.fetches_max}) {}

std::uint32_t SharedReadRoom::find(const transport::RequestHeader& header,
                                   const transport::PageRequest& page) noexcept {
  return index_.find(page.hash.low, [&](std::uint32_t candidate) {
    const SharedRead& shared_read = shared_reads_[candidate];
    return shared_read.hash == page.hash && shared_read.tenant == header.tenant &&
           shared_read.name_space == header.name_space && shared_read.key_bytes == page.key_bytes &&
           std::memcmp(shared_read.key, page.key, page.key_bytes) == 0;
  });
}

// Whether what it holds, or will hold, may be given to somebody who asks now. That the owner has an
// object of the key says nothing of its value, but to one who knows that there is only one.
bool SharedReadRoom::is_current(const SharedRead& shared_read, bool immutable) const noexcept {
  if (shared_read.state == SharedReadState::queued) return true;
  const base::TimeNs known_ns = immutable ? shared_read.confirmed_ns : shared_read.begun_ns;
  return clock_.now_ns() - known_ns <= config_.linger_ns &&
         marks_.of(shared_read.hash) == shared_read.mark;
}

std::uint32_t SharedReadRoom::joinable(const transport::RequestHeader& header,
                                       const transport::PageRequest& page) noexcept {
  const std::uint32_t number = find(header, page);
  if (number == kNone) return kNone;
  const SharedRead& shared_read = shared_reads_[number];
  const bool current = is_current(shared_read, header.immutable);
  const bool fits = shared_read.state == SharedReadState::ready ||
                    page.slice.length <= shared_read.capacity_bytes;
  if (current && fits && lease_is_enough(shared_read.lease_ms, header.lease_ms)) return number;
  if (!current) counters_.outdated.add();
  if (is_idle(shared_read)) {
    wake(number);
    discard(number);
  } else {
    forget(number);
  }
  return kNone;
}

std::uint32_t SharedReadRoom::start(const SharedReadJob& job,
                                    const transport::PageRequest& page) noexcept {
  const transport::RequestHeader& header = job.incoming->header;
  const std::uint64_t length = page.slice.length;
  if (length > extents_.arena_bytes()) return kNone;
  if (!shares_.may_use(job.share, store::ExtentAllocator::rounded(length))) return kNone;
  const std::uint32_t block = make_room(job.share, length);
  if (block == kNone) return kNone;
  const std::uint32_t number = shared_reads_.allocate();
  SIMM_CHECK(number != kNone);  // make_room() saw to it
  SharedRead& shared_read = shared_reads_[number];
  shared_read.hash = page.hash;
  shared_read.tenant = header.tenant;
  shared_read.name_space = header.name_space;
  shared_read.key_bytes = page.key_bytes;
  shared_read.depth = page.depth;
  shared_read.lease_ms = header.lease_ms;
  shared_read.immutable = header.immutable;
  shared_read.serial = ++serials_;
  shared_read.share = job.share;
  shared_read.block = block;
  shared_read.extent_offset = extents_.block(block).offset;
  shared_read.capacity_bytes = length;
  SIMM_CHECK(page.key_bytes <= sizeof shared_read.key);
  std::memcpy(shared_read.key, page.key, page.key_bytes);
  shared_read.indexed = true;
  index_.insert(shared_read.hash.low, number);
  shares_.add_shared_read(job.share, extent_bytes(shared_read));
  queue(number);
  return number;
}

// An extent, and a shared read to hold it; kNone when what is in use, or others' part, leaves no
// room.
std::uint32_t SharedReadRoom::make_room(std::uint32_t share, std::uint64_t bytes) noexcept {
  for (std::uint32_t evicted = 0;; ++evicted) {
    if (!shared_reads_.full()) {
      const std::uint32_t block = extents_.allocate(bytes);
      if (block != kNone) return block;
    }
    if (evicted == config_.evictions_per_page_max) return kNone;
    const std::uint32_t victim = choose_victim(share, bytes);
    if (victim == kNone) return kNone;
    wake(victim);
    discard(victim);
  }
}

// What is too old is nobody's loss. Then it is the copy that was not used for longest: of all, as
// long as this tenant has no more than its part, and of its own, when it has.
std::uint32_t SharedReadRoom::choose_victim(std::uint32_t share, std::uint64_t bytes) noexcept {
  while (by_age_.front() != kNone) {
    const std::uint32_t oldest = by_age_.front();
    const SharedRead& read = shared_reads_[oldest];
    const base::TimeNs known_ns = read.immutable ? read.confirmed_ns : read.begun_ns;
    if (clock_.now_ns() - known_ns <= config_.linger_ns) break;
    if (is_idle(shared_reads_[oldest])) return oldest;
    by_age_.remove(shared_reads_, oldest);  // in use: it ends when it is not any more
  }
  const bool own_only = shares_.exceeds_fair_part(share, store::ExtentAllocator::rounded(bytes));
  const std::uint32_t victim = own_only ? shares_[share].idle.front() : idle_.front();
  if (victim != kNone) counters_.evicted.add();
  return victim;
}

void SharedReadRoom::queue(std::uint32_t number) noexcept {
  shared_reads_[number].state = SharedReadState::queued;
  shares_[shared_reads_[number].share].queued.push_back(shared_reads_, number);
  ++queued_;
}

void SharedReadRoom::unqueue(std::uint32_t number) noexcept {
  shares_[shared_reads_[number].share].queued.remove(shared_reads_, number);
  --queued_;
}

void SharedReadRoom::begin_fetch(std::uint32_t number) noexcept {
  SharedRead& shared_read = shared_reads_[number];
  unqueue(number);
  shared_read.state = SharedReadState::fetching;
  shared_read.begun_ns = clock_.now_ns();
  shared_read.confirmed_ns = shared_read.begun_ns;
  shared_read.used_ns = shared_read.begun_ns;
  shared_read.mark = marks_.of(shared_read.hash);  // before the owner can be asked
  const bool is_again = shared_read.age.next != kNone;
  if (is_again) by_age_.remove(shared_reads_, number);
  by_age_.push_back(shared_reads_, number);
}

void SharedReadRoom::note_immutable(std::uint32_t number) noexcept {
  shared_reads_[number].immutable = true;
  watch(number);
}

void SharedReadRoom::watch(std::uint32_t number) noexcept {
  const SharedRead& shared_read = shared_reads_[number];
  const bool is_there = shared_read.state == SharedReadState::ready && shared_read.indexed;
  if (!shared_read.immutable || !is_there || shared_read.confirming) return;
  if (shared_read.confirmable.next == kNone) confirmable_.push_back(shared_reads_, number);
}

void SharedReadRoom::confirm(std::uint32_t number, base::TimeNs asked_ns) noexcept {
  SharedRead& shared_read = shared_reads_[number];
  shared_read.confirmed_ns = asked_ns;
  if (shared_read.age.next != kNone) by_age_.remove(shared_reads_, number);
  by_age_.push_back(shared_reads_, number);
}

void SharedReadRoom::refute(std::uint32_t number) noexcept {
  if (!is_idle(shared_reads_[number])) return forget(number);
  wake(number);
  discard(number);
}

void SharedReadRoom::forget(std::uint32_t number) noexcept {
  SharedRead& shared_read = shared_reads_[number];
  if (!shared_read.indexed) return;
  shared_read.indexed = false;
  if (shared_read.confirmable.next != kNone) confirmable_.remove(shared_reads_, number);
  index_.remove(shared_read.hash.low, number);
}

void SharedReadRoom::rest(std::uint32_t number) noexcept {
  const SharedRead& shared_read = shared_reads_[number];
  if (!shared_read.indexed || !is_current(shared_read, shared_read.immutable)) {
    return discard(number);
  }
  shares_.let_go(shared_read.share, extent_bytes(shared_read));
  idle_.push_back(shared_reads_, number);
  shares_[shared_read.share].idle.push_back(shared_reads_, number);
}

void SharedReadRoom::wake(std::uint32_t number) noexcept {
  const SharedRead& shared_read = shared_reads_[number];
  shares_[shared_read.share].idle.remove(shared_reads_, number);
  idle_.remove(shared_reads_, number);
  shares_.use(shared_read.share, extent_bytes(shared_read));
}

void SharedReadRoom::discard(std::uint32_t number) noexcept {
  forget(number);
  const SharedRead& shared_read = shared_reads_[number];
  SIMM_CHECK(shared_read.users == 0 && shared_read.waiters.empty());
  if (shared_read.age.next != kNone) by_age_.remove(shared_reads_, number);
  shares_.remove_shared_read(shared_read.share, extent_bytes(shared_read));
  extents_.release(shared_read.block);
  shared_reads_.release(number);
}

// ---- for tests ----

const char* SharedReadRoom::audit(const Known& known) const noexcept {
  if (const char* wrong = extents_.audit()) return wrong;
  if (const char* wrong = index_.audit()) return wrong;
  std::uint32_t found = 0;
  std::uint32_t waiters = 0;
  std::uint32_t indexed = 0;
  std::uint32_t idle = 0;
  std::uint32_t queued = 0;
  std::uint64_t bytes = 0;
  std::uint64_t idle_bytes = 0;
  for (std::uint32_t n = 1; n <= shared_reads_.highest(); ++n) {
    const SharedRead& shared_read = shared_reads_[n];
    if (shared_read.key_bytes == 0) continue;  // released
    ++found;
    indexed += shared_read.indexed ? 1u : 0u;
    queued += shared_read.state == SharedReadState::queued ? 1u : 0u;
    bytes += extent_bytes(shared_read);
    if (is_idle(shared_read)) {
      ++idle;
      idle_bytes += extent_bytes(shared_read);
      if (!shared_read.indexed) return "a shared read that nobody can find was not freed";
    }
    for (std::uint32_t w = shared_read.waiters.front(); w != kNone;
         w = shared_read.waiters.next(known.waiters, w)) {
      if (known.waiters[w].shared_read != n) return "a waiter names another shared read";
      ++waiters;
    }
  }
  std::uint32_t resting = 0;
  for (std::uint32_t n = idle_.front(); n != kNone; n = idle_.next(shared_reads_, n)) ++resting;
  TenantShare sums;
  for (std::uint32_t i = 0; i < shares_.size(); ++i) {
    const TenantShare& share = shares_[i];
    sums.members += share.members;
    sums.shared_reads += share.shared_reads;
    sums.bytes += share.bytes;
    sums.used_shared_reads += share.used_shared_reads;
    sums.used_bytes += share.used_bytes;
    sums.waiters += share.waiters;
    sums.fetches += share.fetches;
  }
  if (resting != idle) return "an idle shared read is on no list";
  if (found != shared_reads_.used()) return "shared reads are lost";
  if (waiters != known.waiters.used()) return "waiters are lost";
  if (queued != queued_) return "queued shared reads are lost";
  if (indexed != index_.entries()) return "the index does not add up";
  if (bytes != extents_.extent_bytes()) return "extents are lost";
  if (sums.members != found + known.jobs) return "members of shares are lost";
  if (sums.shared_reads != found || sums.bytes != bytes) return "shared reads of shares are lost";
  if (sums.used_shared_reads != found - idle) return "used shared reads of shares do not add up";
  if (sums.used_bytes != bytes - idle_bytes) return "used bytes of shares do not add up";
  if (sums.waiters != waiters) return "waiters of shares do not add up";
  return sums.fetches == known.fetches ? nullptr : "fetches of shares do not add up";
}

}  // namespace simm::shared_reads
