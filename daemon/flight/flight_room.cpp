// Flights: how they are found, what room they take and from whom, how they rest and end.
#include <algorithm>
#include <cstring>

#include "daemon/flight/flight_server.h"
#include "simm/check.h"

namespace simm::flight {

using store::kNone;

namespace {

// Whether one who asks for `asked_ms` has that with a fetch that asked for `given_ms`. Zero is the
// owner's own choice, which nobody here knows.
bool lease_is_enough(std::uint32_t given_ms, std::uint32_t asked_ms) noexcept {
  return asked_ms == given_ms || (asked_ms != 0 && given_ms > asked_ms);
}

}  // namespace

std::uint32_t FlightServer::find(const transport::RequestHeader& header,
                                 const transport::PageRequest& page) noexcept {
  return index_.find(page.hash.low, [&](std::uint32_t candidate) {
    const Flight& flight = flights_[candidate];
    return flight.hash == page.hash && flight.tenant == header.tenant &&
           flight.name_space == header.name_space && flight.key_bytes == page.key_bytes &&
           std::memcmp(flight.key, page.key, page.key_bytes) == 0;
  });
}

// Whether what it holds, or will hold, may be given to somebody who asks now.
bool FlightServer::is_current(const Flight& flight) const noexcept {
  if (flight.state == FlightState::queued) return true;
  return clock_.now_ns() - flight.begun_ns <= config_.linger_ns &&
         marks_.of(flight.hash) == flight.mark;
}

// A flight that serves this page, or kNone; one that does not any more is found by nobody then.
std::uint32_t FlightServer::joinable(const transport::RequestHeader& header,
                                     const transport::PageRequest& page) noexcept {
  const std::uint32_t number = find(header, page);
  if (number == kNone) return kNone;
  const Flight& flight = flights_[number];
  const bool current = is_current(flight);
  const bool fits =
      flight.state == FlightState::ready || page.slice.length <= flight.capacity_bytes;
  if (current && fits && lease_is_enough(flight.lease_ms, header.lease_ms)) return number;
  if (!current) counters_.outdated.add();
  if (is_idle(flight)) {
    wake(number);
    discard(number);
  } else {
    forget(number);
  }
  return kNone;
}

std::uint32_t FlightServer::start(const FlightJob& job,
                                  const transport::PageRequest& page) noexcept {
  const transport::RequestHeader& header = job.incoming->header;
  const std::uint64_t length = page.slice.length;
  if (length > extents_.arena_bytes()) return kNone;
  if (!shares_.may_use(job.share, store::ExtentAllocator::rounded(length))) return kNone;
  const std::uint32_t block = make_room(job.share, length);
  if (block == kNone) return kNone;
  const std::uint32_t number = flights_.allocate();
  SIMM_CHECK(number != kNone);  // make_room() saw to it
  Flight& flight = flights_[number];
  flight.hash = page.hash;
  flight.tenant = header.tenant;
  flight.name_space = header.name_space;
  flight.key_bytes = page.key_bytes;
  flight.depth = page.depth;
  flight.lease_ms = header.lease_ms;
  flight.share = job.share;
  flight.block = block;
  flight.extent_offset = extents_.block(block).offset;
  flight.capacity_bytes = length;
  SIMM_CHECK(page.key_bytes <= sizeof flight.key);
  std::memcpy(flight.key, page.key, page.key_bytes);
  flight.indexed = true;
  index_.insert(flight.hash.low, number);
  shares_.add_flight(job.share, extent_bytes(flight));
  queue(number);
  return number;
}

// An extent, and a flight to hold it; kNone when what is in use, or others' part, leaves no room.
std::uint32_t FlightServer::make_room(std::uint32_t share, std::uint64_t bytes) noexcept {
  for (std::uint32_t evicted = 0;; ++evicted) {
    if (!flights_.full()) {
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
std::uint32_t FlightServer::choose_victim(std::uint32_t share, std::uint64_t bytes) noexcept {
  while (by_age_.front() != kNone) {
    const std::uint32_t oldest = by_age_.front();
    if (clock_.now_ns() - flights_[oldest].begun_ns <= config_.linger_ns) break;
    if (is_idle(flights_[oldest])) return oldest;
    by_age_.remove(flights_, oldest);  // in use: it ends when it is not any more
  }
  const bool own_only = shares_.exceeds_fair_part(share, store::ExtentAllocator::rounded(bytes));
  const std::uint32_t victim = own_only ? shares_[share].idle.front() : idle_.front();
  if (victim != kNone) counters_.evicted.add();
  return victim;
}

void FlightServer::queue(std::uint32_t number) noexcept {
  flights_[number].state = FlightState::queued;
  shares_[flights_[number].share].queued.push_back(flights_, number);
  ++queued_;
}

void FlightServer::unqueue(std::uint32_t number) noexcept {
  shares_[flights_[number].share].queued.remove(flights_, number);
  --queued_;
}

void FlightServer::forget(std::uint32_t number) noexcept {
  Flight& flight = flights_[number];
  if (!flight.indexed) return;
  flight.indexed = false;
  index_.remove(flight.hash.low, number);
}

// Nobody uses it now, and it is on no list of its state.
void FlightServer::rest(std::uint32_t number) noexcept {
  const Flight& flight = flights_[number];
  if (!flight.indexed || !is_current(flight)) return discard(number);
  shares_.let_go(flight.share, extent_bytes(flight));
  idle_.push_back(flights_, number);
  shares_[flight.share].idle.push_back(flights_, number);
}

// Undoes rest().
void FlightServer::wake(std::uint32_t number) noexcept {
  const Flight& flight = flights_[number];
  shares_[flight.share].idle.remove(flights_, number);
  idle_.remove(flights_, number);
  shares_.use(flight.share, extent_bytes(flight));
}

// The end: nobody uses it, and it is on no list of its state.
void FlightServer::discard(std::uint32_t number) noexcept {
  forget(number);
  const Flight& flight = flights_[number];
  SIMM_CHECK(flight.users == 0 && flight.waiters.empty());
  if (flight.age.next != kNone) by_age_.remove(flights_, number);
  shares_.remove_flight(flight.share, extent_bytes(flight));
  extents_.release(flight.block);
  flights_.release(number);
}

// ---- for tests ----

const char* FlightServer::audit() const noexcept {
  if (const char* wrong = extents_.audit()) return wrong;
  if (const char* wrong = index_.audit()) return wrong;
  std::uint32_t found = 0;
  std::uint32_t waiters = 0;
  std::uint32_t indexed = 0;
  std::uint32_t idle = 0;
  std::uint32_t queued = 0;
  std::uint64_t bytes = 0;
  std::uint64_t idle_bytes = 0;
  for (std::uint32_t n = 1; n <= flights_.highest(); ++n) {
    const Flight& flight = flights_[n];
    if (flight.key_bytes == 0) continue;  // released
    ++found;
    indexed += flight.indexed ? 1u : 0u;
    queued += flight.state == FlightState::queued ? 1u : 0u;
    bytes += extent_bytes(flight);
    if (is_idle(flight)) {
      ++idle;
      idle_bytes += extent_bytes(flight);
      if (!flight.indexed) return "a flight that nobody can find was not freed";
    }
    for (std::uint32_t w = flight.waiters.front(); w != kNone;
         w = flight.waiters.next(waiters_, w)) {
      if (waiters_[w].flight != n) return "a waiter names another flight";
      ++waiters;
    }
  }
  std::uint32_t resting = 0;
  for (std::uint32_t n = idle_.front(); n != kNone; n = idle_.next(flights_, n)) ++resting;
  TenantShare sums;
  for (std::uint32_t i = 0; i < shares_.size(); ++i) {
    const TenantShare& share = shares_[i];
    sums.members += share.members;
    sums.flights += share.flights;
    sums.bytes += share.bytes;
    sums.used_flights += share.used_flights;
    sums.used_bytes += share.used_bytes;
    sums.waiters += share.waiters;
    sums.fetches += share.fetches;
  }
  if (resting != idle) return "an idle flight is on no list";
  if (found != flights_.used()) return "flights are lost";
  if (waiters != waiters_.used()) return "waiters are lost";
  if (queued != queued_) return "queued flights are lost";
  if (indexed != index_.entries()) return "the index does not add up";
  if (bytes != extents_.extent_bytes()) return "extents are lost";
  if (sums.members != found + jobs_.used()) return "members of shares are lost";
  if (sums.flights != found || sums.bytes != bytes) return "flights of shares are lost";
  if (sums.used_flights != found - idle) return "used flights of shares do not add up";
  if (sums.used_bytes != bytes - idle_bytes) return "used bytes of shares do not add up";
  if (sums.waiters != waiters) return "waiters of shares do not add up";
  const std::uint32_t fetches = config_.fetches_max - free_fetch_count_;
  return sums.fetches == fetches ? nullptr : "fetches of shares do not add up";
}

}  // namespace simm::flight
