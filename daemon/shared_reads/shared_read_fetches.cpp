// Fetches: how shared reads go to their owners and land.
#include <algorithm>

#include "daemon/shared_reads/shared_read_server.h"
#include "simm/check.h"

namespace simm::shared_reads {

using store::kNone;

// Tenants take turns, a fetch each: a long queue of one of them is its own.
int SharedReadServer::start_fetches() noexcept {
  int started = 0;
  std::uint32_t passed_over = 0;  // in a row
  while (room_.queued() > 0 && free_fetch_count_ > 0 && passed_over < shares_.size()) {
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

// Shared reads from the front of the tenant's queue, as far as they belong together.
void SharedReadServer::fetch_some(std::uint32_t share, engine::Operation& operation) noexcept {
  const SharedReadList& queue = shares_[share].queued;
  const std::uint32_t fetch = free_fetches_[--free_fetch_count_];
  std::uint32_t* const numbers = &fetched_[std::size_t{fetch} * config_.fetch_pages_max];
  transport::RequestHeader& header = operation.header;
  header.opcode = ipc::Opcode::get;
  header.shared_read = true;
  std::uint64_t bytes = 0;
  std::uint32_t count = 0;
  while (!queue.empty() && count < config_.fetch_pages_max) {
    const std::uint32_t number = queue.front();
    SharedRead& shared_read = shared_reads_[number];
    if (count == 0) {
      header.tenant = shared_read.tenant;
      header.name_space = shared_read.name_space;
      header.lease_ms = shared_read.lease_ms;
    } else if (shared_read.tenant != header.tenant || shared_read.name_space != header.name_space ||
               shared_read.lease_ms != header.lease_ms ||
               shared_read.capacity_bytes > config_.fetch_bytes_max - bytes) {
      break;
    }
    bytes += std::min(shared_read.capacity_bytes, config_.fetch_bytes_max - bytes);
    room_.begin_fetch(number);
    header.deadline_ns = std::max(header.deadline_ns, shared_read.deadline_ns);
    header.patience_ns = std::max(header.patience_ns, shared_read.patience_ns);
    transport::PageRequest page;
    page.key = shared_read.key;  // stays: a shared read that is being fetched is not released
    page.key_bytes = shared_read.key_bytes;
    page.depth = shared_read.depth;
    page.slice = {&region_, shared_read.extent_offset, shared_read.capacity_bytes};
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
void SharedReadServer::on_progress(engine::Operation& operation) noexcept {
  const auto fetch = static_cast<std::uint32_t>(operation.owner_data);
  const std::uint32_t* const numbers = &fetched_[std::size_t{fetch} * config_.fetch_pages_max];
  for (std::uint32_t page = 0; page < operation.page_count; ++page) {
    const SharedRead& shared_read = shared_reads_[numbers[page]];
    for (std::uint32_t w = shared_read.waiters.front(); w != kNone;
         w = shared_read.waiters.next(waiters_, w)) {
      transport::Incoming& incoming = *jobs_[waiters_[w].job].incoming;
      incoming.responder->note_progress(incoming);
    }
  }
}

void SharedReadServer::on_complete(engine::Operation& operation) noexcept {
  const auto fetch = static_cast<std::uint32_t>(operation.owner_data);
  const std::uint32_t* const numbers = &fetched_[std::size_t{fetch} * config_.fetch_pages_max];
  shares_.remove_fetch(shared_reads_[numbers[0]].share);
  for (std::uint32_t page = 0; page < operation.page_count; ++page) {
    const transport::PageReply& reply = operation.replies[page];
    land(numbers[page], reply.status, reply.bytes, operation.header.deadline_ns);
  }
  free_fetches_[free_fetch_count_++] = fetch;
}

void SharedReadServer::land(std::uint32_t number, Status status, std::uint64_t bytes,
                            base::TimeNs deadline_ns) noexcept {
  SharedRead& shared_read = shared_reads_[number];
  SIMM_CHECK(shared_read.state == SharedReadState::fetching);
  // Somebody who joined has more time than it had.
  if (status == Status::timeout && !shared_read.waiters.empty() &&
      shared_read.deadline_ns > deadline_ns) {
    return room_.queue(number);
  }
  shared_read.status = status;
  shared_read.bytes = bytes;
  shared_read.state = status == Status::ok ? SharedReadState::ready : SharedReadState::failed;
  if (status == Status::ok) {
    counters_.fetched_bytes.add(bytes);
    room_.watch(number);
  } else {
    counters_.failed.add();
    room_.forget(number);
  }
  if (shared_read.waiters.empty()) return room_.rest(number);
  serving_.push_back(shared_reads_, number);
}

int SharedReadServer::serve_landed() noexcept {
  int served = 0;
  while (!serving_.empty() && served < static_cast<int>(config_.serves_per_turn)) {
    const std::uint32_t number = serving_.front();
    SharedRead& shared_read = shared_reads_[number];
    const std::uint32_t waiter = shared_read.waiters.front();
    SharedReadJob& job = jobs_[waiters_[waiter].job];
    const std::uint16_t page = waiters_[waiter].page;
    remove_waiter(waiter);
    serve(number, job, page);
    ++served;
    if (shared_read.waiters.empty()) {
      serving_.remove(shared_reads_, number);
      if (shared_read.users == 0) room_.rest(number);
    }
    finish_if_over(job);
  }
  return served;
}

}  // namespace simm::shared_reads
