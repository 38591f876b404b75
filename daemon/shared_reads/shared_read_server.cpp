// Requests: pages that wait for shared reads, and the copies that are made for them.
#include "daemon/shared_reads/shared_read_server.h"

#include <algorithm>
#include <utility>

#include "simm/check.h"

namespace simm::shared_reads {

using store::kNone;

struct SharedReadServer::Tables {
  // Where each begins, in bytes, and where the last one ends.
  struct Places {
    explicit Places(const SharedReadConfig& config) noexcept
        : index(0),
          jobs(after(index, store::HashIndex::bytes_for(config.shared_reads_max))),
          shared_reads(after(jobs, store::Table<SharedReadJob>::bytes_for(config.requests_max))),
          waiters(
              after(shared_reads, store::Table<SharedRead>::bytes_for(config.shared_reads_max))),
          blocks(after(waiters, store::Table<Waiter>::bytes_for(config.waiters_max))),
          end(after(blocks, store::Table<store::PackedBlock>::bytes_for(blocks_of(config)))) {}

    static std::uint64_t after(std::uint64_t begin, std::uint64_t bytes) noexcept {
      constexpr std::uint64_t kPage = 4096;  // parts do not share pages
      return begin + (bytes + kPage - 1) / kPage * kPage;
    }

    std::uint64_t index, jobs, shared_reads, waiters, blocks, end;
  };

  // `memory`: as many zeroed bytes as Places(config).end says.
  Tables(std::byte* memory, const SharedReadConfig& config, const Places& at) noexcept
      : jobs(memory + at.jobs, config.requests_max),
        waiters(memory + at.waiters, config.waiters_max),
        room{store::HashIndex(memory + at.index, config.shared_reads_max),
             store::Table<SharedRead>(memory + at.shared_reads, config.shared_reads_max),
             store::Table<store::PackedBlock>(memory + at.blocks, blocks_of(config))} {}

  static std::uint32_t blocks_of(const SharedReadConfig& config) noexcept {
    return store::ExtentAllocator::blocks_for(config.shared_reads_max);
  }

  store::Table<SharedReadJob> jobs;
  store::Table<Waiter> waiters;
  SharedReadRoom::Tables room;
};

Expected<std::unique_ptr<SharedReadServer>> SharedReadServer::create(const SharedReadConfig& config,
                                                                     const Setup& setup) {
  SIMM_CHECK(config.requests_max > 0 && config.shared_reads_max > 0 && config.waiters_max > 0);
  SIMM_CHECK(config.fetches_max > 0 && config.fetch_pages_max > 0);
  SIMM_CHECK(config.fetch_pages_max <= ipc::kPagesPerSubmissionMax);
  if (setup.memory.size() < store::ExtentAllocator::kGranuleBytes) {
    return Error{Status::invalid_argument, "a shared-read shard needs memory: at least 64 bytes"};
  }
  const Tables::Places places(config);
  auto memory = store::ReservedMemory::map(places.end);
  if (!memory) return std::move(memory).error();
  const Tables tables(memory->data(), config, places);
  return std::unique_ptr<SharedReadServer>(
      new SharedReadServer(config, setup, std::move(memory).value(), tables));
}

SharedReadServer::SharedReadServer(const SharedReadConfig& config, const Setup& setup,
                                   store::ReservedMemory memory, const Tables& tables)
    : config_(config),
      engine_(setup.engine),
      clock_(setup.clock),
      counters_(setup.counters),
      extents_memory_(setup.memory),
      tables_memory_(std::move(memory)),
      jobs_(tables.jobs),
      waiters_(tables.waiters),
      room_(config_, clock_, setup.marks, counters_, tables.room, setup.memory.size()),
      shared_reads_(room_.table()),
      shares_(room_.shares()),
      confirmer_(config_, engine_, clock_, room_, counters_),
      pages_(config.requests_max),
      fetched_(std::make_unique<std::uint32_t[]>(std::size_t{config.fetches_max} *
                                                 config.fetch_pages_max)),
      free_fetches_(std::make_unique<std::uint32_t[]>(config.fetches_max)),
      free_fetch_count_(config.fetches_max) {
  region_.base = setup.memory.data();
  region_.length = setup.memory.size();
  region_.can_fault = false;
  region_.keys = setup.keys;
  for (std::uint32_t i = 0; i < free_fetch_count_; ++i) {
    free_fetches_[i] = free_fetch_count_ - 1 - i;
  }
}

SharedReadServer::~SharedReadServer() {
  SIMM_CHECK(jobs_.used() == 0);
}

// The least that has to be done for somebody to wait comes first.
int SharedReadServer::do_work() noexcept {
  int work = 0;
  if (!serving_.empty()) work += serve_landed();
  if (arrived_ > 0) work += take_pages();
  if (room_.queued() > 0) work += start_fetches();
  if (!room_.confirmable().empty()) work += confirmer_.do_work();
  return work;
}

// ---- requests ----

void SharedReadServer::on_request(transport::Incoming& incoming) noexcept {
  SIMM_CHECK(incoming.header.opcode == ipc::Opcode::get && !incoming.header.ranged);
  SIMM_CHECK(!incoming.pages.empty() && incoming.pages.size() <= ipc::kPagesPerSubmissionMax);
  const std::uint32_t number = jobs_.allocate();
  SIMM_CHECK(number != kNone);  // one for each credit of the transport
  SharedReadJob& job = jobs_[number];
  job.incoming = &incoming;
  job.number = number;
  job.pages_open = static_cast<std::uint32_t>(incoming.pages.size());
  job.share = shares_.enter(incoming.header.tenant);
  shares_[job.share].arrived.push_back(jobs_, number);
  ++arrived_;
  incoming.server_data = &job;
  counters_.pages.add(incoming.pages.size());
}

SharedReadJob& SharedReadServer::job_of(const transport::Incoming& incoming) noexcept {
  // SAFETY: on_request() put the job there; it stays until reply() or on_aborted().
  SharedReadJob& job = *static_cast<SharedReadJob*>(incoming.server_data);
  SIMM_CHECK(job.incoming == &incoming);
  return job;
}

// Tenants take turns, a few pages each.
int SharedReadServer::take_pages() noexcept {
  constexpr std::uint32_t kPagesOfOneTurn = 32;
  std::uint32_t pages = 0;
  while (arrived_ > 0 && pages < config_.pages_per_turn) {
    const std::uint32_t share = take_next_;
    take_next_ = (take_next_ + 1) % shares_.size();
    if (shares_[share].arrived.empty()) continue;
    take_some(share, kPagesOfOneTurn);
    pages += kPagesOfOneTurn;
  }
  return static_cast<int>(pages);
}

void SharedReadServer::take_some(std::uint32_t share, std::uint32_t pages_max) noexcept {
  SharedReadJob& job = jobs_[shares_[share].arrived.front()];
  const auto count = static_cast<std::uint32_t>(job.incoming->pages.size());
  const std::uint32_t end = std::min(count, job.taken + pages_max);
  while (job.taken < end) take_page(job, static_cast<std::uint16_t>(job.taken++));
  if (job.taken < count) return;
  shares_[share].arrived.remove(jobs_, job.number);
  --arrived_;
  finish_if_over(job);
}

void SharedReadServer::take_page(SharedReadJob& job, std::uint16_t page) noexcept {
  const transport::PageRequest& request = job.incoming->pages[page];
  pages_[job.number - 1].waiters[page] = kNone;
  if (request.slice.length == 0) return answer(job, page, {Status::invalid_argument, 0});
  std::uint32_t number = room_.joinable(job.incoming->header, request);
  const bool is_here = number != kNone && shared_reads_[number].state == SharedReadState::ready;
  bool has_room = is_here || shares_.may_wait(job.share);
  if (is_here && SharedReadRoom::is_idle(shared_reads_[number])) {
    has_room = shares_.may_use(job.share, SharedReadRoom::extent_bytes(shared_reads_[number]));
  }
  if (has_room) {
    if (number != kNone) {
      (is_here ? counters_.hits : counters_.joined).add();
      if (job.incoming->header.immutable) room_.note_immutable(number);
    } else {
      number = room_.start(job, request);
    }
  }
  if (!has_room || number == kNone) {
    counters_.declined.add();
    return answer(job, page, {Status::no_space, 0});
  }
  if (!is_here) return wait_for(number, job, page);
  if (SharedReadRoom::is_idle(shared_reads_[number])) room_.wake(number);
  serve(number, job, page);
  if (SharedReadRoom::is_idle(shared_reads_[number])) room_.rest(number);
}

void SharedReadServer::wait_for(std::uint32_t number, SharedReadJob& job,
                                std::uint16_t page) noexcept {
  SharedRead& shared_read = shared_reads_[number];
  const std::uint32_t waiter = waiters_.allocate();
  SIMM_CHECK(waiter != kNone);  // may_wait() saw to it
  waiters_[waiter].job = job.number;
  waiters_[waiter].shared_read = number;
  waiters_[waiter].page = page;
  shared_read.waiters.push_back(waiters_, waiter);
  const transport::RequestHeader& header = job.incoming->header;
  shared_read.deadline_ns = std::max(shared_read.deadline_ns, header.deadline_ns);
  base::TimeNs patience_ns = header.patience_ns;
  if (patience_ns == 0)
    patience_ns = header.deadline_ns - std::min(header.deadline_ns, clock_.now_ns());
  shared_read.patience_ns = std::max(shared_read.patience_ns, patience_ns);
  shares_.add_waiter(job.share);
  pages_[job.number - 1].waiters[page] = waiter;
}

void SharedReadServer::remove_waiter(std::uint32_t number) noexcept {
  const Waiter& waiter = waiters_[number];
  pages_[waiter.job - 1].waiters[waiter.page] = kNone;
  shares_.remove_waiter(jobs_[waiter.job].share);
  shared_reads_[waiter.shared_read].waiters.remove(waiters_, number);
  waiters_.release(number);
}

// What a requester with such a view gets of a shared read that has landed.
Status SharedReadServer::outcome_for(const SharedRead& shared_read,
                                     const transport::RequestHeader& header,
                                     std::uint64_t view_bytes) noexcept {
  // A fetch is refused when the object is longer than what it was made for, and who waits for it
  // has no longer view than that.
  const bool too_long = shared_read.state == SharedReadState::failed
                            ? shared_read.status == Status::invalid_argument
                            : shared_read.bytes > view_bytes;
  if (shared_read.state == SharedReadState::failed && !too_long) return shared_read.status;
  if (header.exact_size && (too_long || shared_read.bytes != view_bytes))
    return Status::size_mismatch;
  return too_long ? Status::invalid_argument : Status::ok;
}

// Answers the page, or starts its copy.
void SharedReadServer::serve(std::uint32_t number, SharedReadJob& job,
                             std::uint16_t page) noexcept {
  SharedRead& shared_read = shared_reads_[number];
  transport::Incoming& incoming = *job.incoming;
  const Status status =
      outcome_for(shared_read, incoming.header, incoming.pages[page].slice.length);
  if (status != Status::ok) return answer(job, page, {status, 0});
  ++job.moves;
  ++shared_read.users;
  shared_read.used_ns = clock_.now_ns();
  pages_[job.number - 1].shared_reads[page] = number;
  // Always from our own memory, for whoever made the fetch too: its buffer is its client's.
  incoming.responder->push(
      incoming, page, extents_memory_.subspan(shared_read.extent_offset, shared_read.bytes), false);
  // What a shared read holds never changes: a new fetch is a new shared read.
  if (incoming.pages[page].slice.is_reached_by(memory::Reach::helper)) {
    incoming.responder->name_pushed(incoming, {config_.origin, shared_read.serial, 0});
  }
}

void SharedReadServer::on_moved(transport::Incoming& incoming, std::uint16_t page,
                                transport::MoveResult result) noexcept {
  SharedReadJob& job = job_of(incoming);
  const std::uint32_t number = pages_[job.number - 1].shared_reads[page];
  SharedRead& shared_read = shared_reads_[number];
  SIMM_CHECK(job.moves > 0 && shared_read.users > 0);
  --job.moves;
  --shared_read.users;
  const std::uint64_t bytes = result.status == Status::ok ? shared_read.bytes : 0;
  counters_.copied_bytes.add(bytes);
  answer(job, page, {result.status, bytes});
  if (SharedReadRoom::is_idle(shared_read)) room_.rest(number);
  finish_if_over(job);
}

void SharedReadServer::on_cancel(transport::Incoming& incoming) noexcept {
  SharedReadJob& job = job_of(incoming);
  stop(job);
  finish_if_over(job);
}

void SharedReadServer::on_aborted(transport::Incoming& incoming) noexcept {
  SharedReadJob& job = job_of(incoming);
  SIMM_CHECK(job.moves == 0);
  stop(job);
  release(job);
}

// Its pages wait no more; moves that are under way end by themselves. A shared read that was begun
// goes on, to be kept; one that was not is given up with its last waiter.
void SharedReadServer::stop(SharedReadJob& job) noexcept {
  for (std::uint32_t page = 0; page < job.taken; ++page) {
    const std::uint32_t waiter = pages_[job.number - 1].waiters[page];
    if (waiter == kNone) continue;
    const std::uint32_t number = waiters_[waiter].shared_read;
    remove_waiter(waiter);
    answer(job, static_cast<std::uint16_t>(page), {Status::cancelled, 0});
    const SharedRead& shared_read = shared_reads_[number];
    if (!shared_read.waiters.empty() || shared_read.state == SharedReadState::fetching) continue;
    if (shared_read.state == SharedReadState::queued) {
      room_.unqueue(number);
      room_.discard(number);
    } else {
      serving_.remove(shared_reads_, number);
      if (shared_read.users == 0) room_.rest(number);
    }
  }
  const auto count = static_cast<std::uint32_t>(job.incoming->pages.size());
  if (job.taken == count) return;
  while (job.taken < count) {
    answer(job, static_cast<std::uint16_t>(job.taken++), {Status::cancelled, 0});
  }
  shares_[job.share].arrived.remove(jobs_, job.number);
  --arrived_;
}

void SharedReadServer::answer(SharedReadJob& job, std::uint16_t page,
                              transport::PageReply reply) noexcept {
  SIMM_CHECK(job.pages_open > 0);
  --job.pages_open;
  pages_[job.number - 1].replies[page] = reply;
}

void SharedReadServer::finish_if_over(SharedReadJob& job) noexcept {
  if (job.pages_open > 0) return;
  transport::Incoming& incoming = *job.incoming;
  // They stay as they are until the next request takes the job.
  const auto replies = std::span(pages_[job.number - 1].replies).first(incoming.pages.size());
  release(job);
  incoming.responder->reply(incoming, replies);
}

void SharedReadServer::release(SharedReadJob& job) noexcept {
  SIMM_CHECK(job.moves == 0);
  job.incoming->server_data = nullptr;
  shares_.leave(job.share);
  jobs_.release(job.number);
}

}  // namespace simm::shared_reads
