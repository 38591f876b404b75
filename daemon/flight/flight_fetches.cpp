// Fetches: how flights go to their owners and land.
#include <algorithm>

#include "daemon/flight/flight_server.h"
#include "simm/check.h"

namespace simm::flight {

using store::kNone;

// Tenants take turns, a fetch each: a long queue of one of them is its own.
int FlightServer::start_fetches() noexcept {
  int started = 0;
  std::uint32_t passed_over = 0;  // in a row
  while (queued_ > 0 && free_fetch_count_ > 0 && passed_over < shares_.size()) {
    const std::uint32_t share = fetch_next_;
    fetch_next_ = (fetch_next_ + 1) % shares_.size();
    ++passed_over;
    if (shares_[share].queued.empty() || !shares_.may_fetch(share)) continue;
    engine::Operation* operation = engine_.allocate_fetch();
    SIMM_CHECK(operation != nullptr);  // the engine keeps one for each of our fetches
    fetch_some(share, *operation);
    passed_over = 0;
    ++started;
  }
  return started;
}

// Flights from the front of the tenant's queue, as far as they belong together.
void FlightServer::fetch_some(std::uint32_t share, engine::Operation& operation) noexcept {
  FlightList& queue = shares_[share].queued;
  const std::uint32_t fetch = free_fetches_[--free_fetch_count_];
  std::uint32_t* const numbers = &fetched_[std::size_t{fetch} * config_.fetch_pages_max];
  const base::TimeNs now_ns = clock_.now_ns();
  transport::RequestHeader& header = operation.header;
  header.opcode = ipc::Opcode::get;
  header.shared_read = true;
  std::uint64_t bytes = 0;
  std::uint32_t count = 0;
  while (!queue.empty() && count < config_.fetch_pages_max) {
    const std::uint32_t number = queue.front();
    Flight& flight = flights_[number];
    if (count == 0) {
      header.tenant = flight.tenant;
      header.name_space = flight.name_space;
      header.lease_ms = flight.lease_ms;
    } else if (flight.tenant != header.tenant || flight.name_space != header.name_space ||
               flight.lease_ms != header.lease_ms ||
               flight.capacity_bytes > config_.fetch_bytes_max - bytes) {
      break;
    }
    bytes += std::min(flight.capacity_bytes, config_.fetch_bytes_max - bytes);
    unqueue(number);
    flight.state = FlightState::fetching;
    flight.begun_ns = now_ns;
    flight.mark = marks_.of(flight.hash);  // before the owner can be asked
    if (flight.age.next != kNone) by_age_.remove(flights_, number);  // it is fetched once more
    by_age_.push_back(flights_, number);
    header.deadline_ns = std::max(header.deadline_ns, flight.deadline_ns);
    header.patience_ns = std::max(header.patience_ns, flight.patience_ns);
    transport::PageRequest page;
    page.key = flight.key;  // stays: a flight that is being fetched is not released
    page.key_bytes = flight.key_bytes;
    page.depth = flight.depth;
    page.slice = {&region_, flight.extent_offset, flight.capacity_bytes};
    page.index = static_cast<std::uint16_t>(count);
    operation.pages[count] = page;
    numbers[count] = number;
    ++count;
  }
  operation.page_count = count;
  operation.owner = this;
  operation.owner_data = fetch;
  shares_.add_fetch(share);
  counters_.fetched_pages.add(count);
  engine_.submit(operation);
}

// Whoever waits for a fetch that moves has to hear of it: nothing else of his moves meanwhile.
void FlightServer::on_progress(engine::Operation& operation) noexcept {
  const auto fetch = static_cast<std::uint32_t>(operation.owner_data);
  const std::uint32_t* const numbers = &fetched_[std::size_t{fetch} * config_.fetch_pages_max];
  for (std::uint32_t page = 0; page < operation.page_count; ++page) {
    const Flight& flight = flights_[numbers[page]];
    for (std::uint32_t w = flight.waiters.front(); w != kNone;
         w = flight.waiters.next(waiters_, w)) {
      transport::Incoming& incoming = *jobs_[waiters_[w].job].incoming;
      incoming.responder->note_progress(incoming);
    }
  }
}

void FlightServer::on_complete(engine::Operation& operation) noexcept {
  const auto fetch = static_cast<std::uint32_t>(operation.owner_data);
  const std::uint32_t* const numbers = &fetched_[std::size_t{fetch} * config_.fetch_pages_max];
  shares_.remove_fetch(flights_[numbers[0]].share);
  for (std::uint32_t page = 0; page < operation.page_count; ++page) {
    const transport::PageReply& reply = operation.replies[page];
    land(numbers[page], reply.status, reply.bytes, operation.header.deadline_ns);
  }
  free_fetches_[free_fetch_count_++] = fetch;
}

void FlightServer::land(std::uint32_t number, Status status, std::uint64_t bytes,
                        base::TimeNs deadline_ns) noexcept {
  Flight& flight = flights_[number];
  SIMM_CHECK(flight.state == FlightState::fetching);
  // Somebody who joined has more time than it had.
  if (status == Status::timeout && !flight.waiters.empty() && flight.deadline_ns > deadline_ns) {
    return queue(number);
  }
  flight.status = status;
  flight.bytes = bytes;
  flight.state = status == Status::ok ? FlightState::ready : FlightState::failed;
  if (status == Status::ok) {
    counters_.fetched_bytes.add(bytes);
  } else {
    counters_.failed.add();
    forget(number);
  }
  if (flight.waiters.empty()) return rest(number);
  serving_.push_back(flights_, number);
}

int FlightServer::serve_landed() noexcept {
  int served = 0;
  while (!serving_.empty() && served < static_cast<int>(config_.serves_per_turn)) {
    const std::uint32_t number = serving_.front();
    Flight& flight = flights_[number];
    const std::uint32_t waiter = flight.waiters.front();
    FlightJob& job = jobs_[waiters_[waiter].job];
    const std::uint16_t page = waiters_[waiter].page;
    remove_waiter(waiter);
    serve(number, job, page);
    ++served;
    if (flight.waiters.empty()) {
      serving_.remove(flights_, number);
      if (flight.users == 0) rest(number);
    }
    finish_if_over(job);
  }
  return served;
}

}  // namespace simm::flight
