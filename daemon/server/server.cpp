#include "daemon/server/server.h"

#include <algorithm>
#include <utility>

#include "daemon/server/key_scan.h"
#include "simm/check.h"

namespace simm::server {
namespace {

base::TraceRecord record_of(const transport::Incoming& incoming) noexcept {
  base::TraceRecord record;
  record.id = incoming.header.trace_id;
  record.tenant = incoming.header.tenant.value;
  record.pages = static_cast<std::uint32_t>(incoming.pages.size());
  record.opcode = static_cast<std::uint8_t>(incoming.header.opcode);
  record.is_request = true;
  return record;
}

// The requester's operation is the span that the work here is a part of.
base::TraceMark mark_of(const transport::Incoming& incoming) noexcept {
  const transport::RequestHeader& header = incoming.header;
  return {incoming.is_recorded,
          header.trace.is_set(),
          {header.trace.high, header.trace.low, header.trace_id}};
}

}  // namespace

Server::Server(const ServerConfig& config, store::Store& store, const base::Clock& clock,
               ServerCounters counters, StoreCounters store_counters, ScrubCounters scrub_counters,
               base::ErrorLog* errors)
    : config_(config),
      store_(store),
      clock_(clock),
      counters_(std::move(counters)),
      store_counters_(std::move(store_counters)),
      tenants_(store.tenant_table()),
      departures_(std::make_unique<base::SlotDepartures>()),
      mirror_since_(base::kSlotCount),
      arrivals_(config.arrival_keys_max, config.arrival_window_ns),
      expected_(config_, arrivals_, counters_),
      hot_keys_(slots_),
      pages_(config_, store, clock, slots_, arrivals_, expected_, hot_keys_, counters_),
      scrubber_(config.scrub_bytes_per_s, store, std::move(scrub_counters), errors),
      jobs_(std::make_unique<Job[]>(config.requests_max)),
      job_pages_(config.requests_max),
      queue_(config) {
  SIMM_CHECK(config.verify_one_in > 0);
  for (std::uint32_t i = 0; i < config.requests_max; ++i) {
    jobs_[i].pages = &job_pages_[i];
    free_jobs_.push_back(jobs_[i]);
  }
}

// Transports are torn down first: they report every move and abort what is left.
Server::~Server() {
  SIMM_CHECK(jobs_busy_ == 0);
}

void Server::use_map(const base::SlotOwnership& map,
                     const base::SlotDepartures* departures) noexcept {
  if (map.epoch < slots_.epoch()) return;
  if (has_earlier_life_ && slots_.epoch() == 0) reborn_at_ = map.epoch;
  arrivals_.use(slots_.map(), map, clock_.now_ns());
  expected_.use_map(slots_.map(), map, clock_.now_ns());
  counters_.arriving_slots.set(arrivals_.open_slots());
  // A slot that departs may have come back: what is there of it is old.
  const bool had_departures = departures_->slots > 0;
  if (departures != nullptr) {
    *departures_ = *departures;
  } else if (had_departures) {
    *departures_ = {};
  }
  const bool has_lost = slots_.use(map);
  if ((has_lost || had_departures) && is_open()) store_.keep_slots(slots_.map(), departures_.get());
}

void Server::note_refills(const base::SlotDepartures& refills) noexcept {
  for (std::uint32_t i = 0; i < base::kSlotCount; ++i) {
    const auto slot = static_cast<base::Slot>(i);
    if (refills.departs(slot)) {
      mirror_since_[slot] = std::max(mirror_since_[slot], refills.next[slot]);
    }
  }
}

void Server::end_departures() noexcept {
  if (departures_->slots == 0) return;
  *departures_ = {};
  if (is_open()) store_.keep_slots(slots_.map(), departures_.get());
}

bool Server::open_if_recovered() noexcept {
  if (!recovered_->load(std::memory_order_acquire)) return false;
  recovered_ = nullptr;
  if (slots_.epoch() != 0) store_.keep_slots(slots_.map(), departures_.get());
  publish();
  return true;
}

// ---- requests ----

Status Server::refusal_of(const transport::Incoming& incoming) const noexcept {
  const transport::RequestHeader& header = incoming.header;
  if (incoming.pages.empty() || incoming.pages.size() > ipc::kPagesPerSubmissionMax) {
    return Status::invalid_argument;
  }
  if (header.is_moved && header.opcode != ipc::Opcode::put && !is_tell(incoming)) {
    return Status::invalid_argument;
  }
  switch (header.opcode) {
    case ipc::Opcode::put:
      if (header.put_mode != ipc::PutMode::if_absent && header.put_mode != ipc::PutMode::replace) {
        return Status::invalid_argument;
      }
      if (header.is_moved && header.put_mode != ipc::PutMode::if_absent) {
        return Status::invalid_argument;
      }
      break;
    case ipc::Opcode::get:
    case ipc::Opcode::exists:
    case ipc::Opcode::remove:
    case ipc::Opcode::pin:
    case ipc::Opcode::unpin:
      break;
    default:
      return Status::invalid_argument;
  }
  for (const transport::PageRequest& page : incoming.pages) {
    if (page.key == nullptr || page.key_bytes == 0 || page.key_bytes > ipc::kKeyBytesMax) {
      return Status::invalid_argument;
    }
  }
  if (header.epoch > slots_.epoch()) return Status::wrong_epoch;
  return is_open() ? Status::ok : Status::unreachable;
}

void Server::on_request(transport::Incoming& incoming) noexcept {
  counters_.requests.add();
  has_changed_ = true;
  const bool may_trace =
      tracer_ != nullptr && !is_tell(incoming) && (tracer_->on() || incoming.header.trace.is_set());
  if (may_trace) return trace_request(incoming);
  incoming.header.trace_id = 0;
  serve_request(incoming);
}

void Server::serve_request(transport::Incoming& incoming) noexcept {
  const bool serves_pages = is_open() || open_if_recovered();
  if (serves_pages && !incoming.pages.empty()) store_.prefetch_index(incoming.pages[0].hash);
  const Status refusal = refusal_of(incoming);
  if (refusal != Status::ok) {
    if (refusal == Status::wrong_epoch) counters_.wrong_epoch.add(incoming.pages.size());
    if (refusal == Status::invalid_argument) counters_.invalid_pages.add(incoming.pages.size());
    if (refusal == Status::unreachable) counters_.recovering_pages.add(incoming.pages.size());
    answer_all(incoming, refusal);
    return;
  }
  if (is_tell(incoming)) return expected_.take(incoming, clock_.now_ns(), scratch_);
  if (!incoming.header.is_moved) hot_keys_.note_request(incoming.header, incoming.pages);
  const bool is_read = transport::is_read(incoming.header.opcode);
  const bool may_wait =
      is_read && !expected_.is_idle() && pages_.ask_for(incoming, clock_.now_ns());
  if (incoming.header.opcode == ipc::Opcode::exists && !may_wait) return answer_exists(incoming);
  if (incoming.header.opcode == ipc::Opcode::remove) return answer_remove(incoming);
  if (incoming.header.opcode == ipc::Opcode::pin) return answer_pin(incoming);
  if (incoming.header.opcode == ipc::Opcode::unpin) return answer_pin(incoming);
  const base::TimeNs now_ns = clock_.now_ns();
  if (free_jobs_.empty()) {
    counters_.refused_requests.add();
    answer_all(incoming, Status::out_of_memory);
    return;
  }
  start_job(incoming, now_ns);
}

void Server::answer_all(transport::Incoming& incoming, Status status) noexcept {
  const std::size_t count = std::min(incoming.pages.size(), scratch_.size());
  std::fill_n(scratch_.begin(), count, transport::PageReply{status, 0});
  incoming.responder->reply(incoming, std::span(scratch_).first(count));
}

// In an answer without a job.
void Server::refuse_slot(std::size_t page) noexcept {
  counters_.wrong_epoch.add();
  scratch_[page] = {Status::wrong_epoch, 0};
}

void Server::answer_exists(transport::Incoming& incoming) noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  const base::TimeNs lease_ns = incoming.header.lease_ms * base::kNsPerMs;
  scan_reversed(store_, incoming.header, incoming.pages,
                [&](std::size_t page, const store::ObjectKey& key) {
                  if (!slots_.serves(incoming.header.epoch, key.group)) return refuse_slot(page);
                  const std::uint64_t length = store_.exists(key, lease_ns, now_ns);
                  scratch_[page] = {length > 0 ? Status::ok : Status::not_found, length};
                });
  incoming.responder->reply(incoming, std::span(scratch_).first(incoming.pages.size()));
}

void Server::answer_remove(transport::Incoming& incoming) noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  const bool is_kept_twice =
      config_.replicated.has(incoming.header.tenant, incoming.header.name_space);
  scan_reversed(store_, incoming.header, incoming.pages,
                [&](std::size_t page, const store::ObjectKey& key) {
                  const base::Epoch asked = incoming.header.epoch;
                  if (!slots_.serves(asked, key.group)) return refuse_slot(page);
                  if (is_kept_twice && asked < mirror_since_[base::slot_of(key.group)]) {
                    return refuse_slot(page);
                  }
                  if (is_kept_twice && asked < reborn_at_) return refuse_slot(page);
                  pages_.note_remove(key.group, key.hash, is_kept_twice);
                  const bool was_there = store_.remove(key, now_ns);
                  scratch_[page] = {was_there ? Status::ok : Status::not_found, 0};
                });
  incoming.responder->reply(incoming, std::span(scratch_).first(incoming.pages.size()));
}

// Pins or unpins.
void Server::answer_pin(transport::Incoming& incoming) noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  const bool pins = incoming.header.opcode == ipc::Opcode::pin;
  scan_reversed(store_, incoming.header, incoming.pages,
                [&](std::size_t page, const store::ObjectKey& key) {
                  if (!slots_.serves(incoming.header.epoch, key.group)) return refuse_slot(page);
                  const Status done = pins ? store_.pin(key, now_ns) : store_.unpin(key, now_ns);
                  scratch_[page] = {done, 0};
                });
  incoming.responder->reply(incoming, std::span(scratch_).first(incoming.pages.size()));
}

void Server::start_job(transport::Incoming& incoming, base::TimeNs now_ns) noexcept {
  const transport::RequestHeader& header = incoming.header;
  Job& job = *free_jobs_.pop_front();
  ++jobs_busy_;
  incoming.server_data = &job;
  job.incoming = &incoming;
  job.stopped = job.cancelled = job.waits_for_space = job.waits_for_arrival = false;
  job.next = 0;
  job.waited = 0;
  job.moves = 0;
  job.move_bytes = 0;
  job.evicted_bytes = 0;
  job.epoch = header.epoch;
  job.deadline_ns = header.deadline_ns;
  job.space_deadline_ns =
      header.deadline_ns > now_ns ? now_ns + (header.deadline_ns - now_ns) / 2 : now_ns;
  job.arrival_deadline_ns = std::min(job.space_deadline_ns, now_ns + config_.arrival_wait_ns);
  queue_.enter(job, header.tenant);
  if (job.is_traced()) begin_trace(job);
  // Pages move from the first to the last: what is there when the time is over is a prefix. The
  // order of last use is settled before, from the last to the first.
  if (header.opcode == ipc::Opcode::get && incoming.pages.size() > 1) {
    const base::TimeNs lease_ns = header.lease_ms * base::kNsPerMs;
    scan_reversed(store_, header, incoming.pages, [&](std::size_t, const store::ObjectKey& key) {
      store_.touch(key, lease_ns, now_ns);
    });
  }
  (void)store_.prefetch_record(incoming.pages[0].hash);
  queue_.push(job);
}

void Server::on_moved(transport::Incoming& incoming, std::uint16_t page,
                      transport::MoveResult result) noexcept {
  // SAFETY: on_request() put the job there; it stays until reply() or on_aborted().
  Job& job = *static_cast<Job*>(incoming.server_data);
  SIMM_CHECK(job.incoming == &incoming && job.moves > 0);
  has_changed_ = true;
  const PageWork& work = job.pages->work[page];
  const bool is_get = incoming.header.opcode == ipc::Opcode::get;
  const std::uint64_t bytes =
      is_get ? job.pages->replies[page].bytes : work.reservation.extent.size();
  --job.moves;
  job.move_bytes -= bytes;
  queue_.end_move(job, bytes, work.age);
  if (result.status != Status::ok && result.status != Status::cancelled) {
    counters_.failed_moves.add();
  }
  pages_.end(job, page, result);
  if (job.next < incoming.pages.size()) {
    const bool on_a_list = job.linked();
    if (!on_a_list && window_open(job)) queue_.push(job);
    return;
  }
  finish_if_over(job);
}

// Of a put that waits for room, this is what its requester wants to know; of a read that waits for
// an object on its way, that this one is a miss.
void Server::on_cancel(transport::Incoming& incoming) noexcept {
  if (is_tell(incoming)) return expected_.end_call(incoming, true);
  // SAFETY: as in on_moved().
  Job& job = *static_cast<Job*>(incoming.server_data);
  SIMM_CHECK(job.incoming == &incoming);
  counters_.cancels.add();
  if (job.waits_for_arrival) {
    pages_.answer(job, static_cast<std::uint16_t>(job.next++), Status::not_found, 0);
  }
  job.cancelled = true;
  stop(job, job.waits_for_space ? Status::no_space : Status::cancelled);
  finish_if_over(job);
}

void Server::on_aborted(transport::Incoming& incoming) noexcept {
  if (is_tell(incoming)) return expected_.end_call(incoming, false);
  // SAFETY: as in on_moved().
  Job& job = *static_cast<Job*>(incoming.server_data);
  SIMM_CHECK(job.incoming == &incoming && job.moves == 0);
  counters_.aborts.add();
  stop(job, Status::cancelled);
  release(job);
}

// Answers the pages that were not started; those that move end by themselves.
void Server::stop(Job& job, Status status) noexcept {
  has_changed_ = true;
  job.stopped = true;
  const auto count = static_cast<std::uint32_t>(job.incoming->pages.size());
  for (std::uint32_t page = job.next; page < count; ++page) {
    pages_.answer(job, static_cast<std::uint16_t>(page), status, 0);
  }
  job.next = count;
  if (!job.linked()) return;
  if (job.waits_for_space) {
    waiting_.remove(job);
    --waiting_count_;
    job.waits_for_space = false;
  } else if (job.waits_for_arrival) {
    arriving_.remove(job);
    job.waits_for_arrival = false;
  } else {
    queue_.remove(job);
  }
}

void Server::finish_if_over(Job& job) noexcept {
  transport::Incoming& incoming = *job.incoming;
  if (job.moves > 0 || job.next < incoming.pages.size()) return;
  if (incoming.header.opcode == ipc::Opcode::put && incoming.pages.size() > 1 && !job.stopped) {
    scan_reversed(store_, incoming.header, incoming.pages,
                  [&](std::size_t, const store::ObjectKey& key) {
                    store_.touch(key, store::kNoLease, turn_ns_);
                  });
  }
  const auto replies = std::span(job.pages->replies).first(incoming.pages.size());
  if (job.is_traced()) return reply_traced(job, replies);
  release(job);  // the reply array stays as it is until the next request takes the job
  incoming.responder->reply(incoming, replies);
}

// ---- tracing ----

// Leaves a trace id in those that somebody is told of, and a trace in those of OpenTelemetry.
void Server::choose_traces(transport::Incoming& incoming) noexcept {
  transport::RequestHeader& header = incoming.header;
  base::TraceExport* const exports = tracer_->exports();
  const bool is_exported = header.trace.is_set() && exports != nullptr &&
                           exports->choose_request(header.tenant.value, clock_.now_ns());
  if (!is_exported) header.trace = {};
  const std::uint64_t recorded = tracer_->on() ? tracer_->choose_request(header.trace_id) : 0;
  incoming.is_recorded = recorded != 0;
  if (!is_exported) header.trace_id = recorded;
}

void Server::trace_request(transport::Incoming& incoming) noexcept {
  choose_traces(incoming);
  if (incoming.header.trace_id == 0) return serve_request(incoming);
  base::TraceRecord record = record_of(incoming);
  const base::TraceMark mark = mark_of(incoming);
  const base::TimeNs now_ns = clock_.fresh_ns();
  record.stamp(base::RequestStamp::arrived, now_ns);
  record.stamp(base::RequestStamp::turn, now_ns);
  const std::uint32_t busy_before = jobs_busy_;
  serve_request(incoming);
  // A job goes on; anything else is answered, and then the request is not ours any more.
  if (jobs_busy_ == busy_before) {
    const base::TimeNs served_ns = clock_.fresh_ns();
    record.stamp(base::RequestStamp::stored, served_ns);
    record.stamp(base::RequestStamp::moved, served_ns);
    push_trace(record, mark,
               std::span(scratch_).first(std::min<std::size_t>(record.pages, scratch_.size())));
  }
}

void Server::begin_trace(Job& job) noexcept {
  job.stamps_ns = {};
  job.stamp(base::RequestStamp::arrived, clock_.fresh_ns());
}

// The end of finish_if_over().
void Server::reply_traced(Job& job, std::span<const transport::PageReply> replies) noexcept {
  transport::Incoming& incoming = *job.incoming;
  job.stamp(base::RequestStamp::moved, clock_.fresh_ns());
  base::TraceRecord record = record_of(incoming);
  record.stamps_ns = job.stamps_ns;
  const base::TraceMark mark = mark_of(incoming);
  release(job);
  incoming.responder->reply(incoming, replies);
  push_trace(record, mark, replies);
}

void Server::push_trace(base::TraceRecord record, const base::TraceMark& mark,
                        std::span<const transport::PageReply> replies) noexcept {
  record.stamp(base::RequestStamp::replied, clock_.fresh_ns());
  for (const transport::PageReply& reply : replies) {
    if (reply.status == Status::ok) {
      ++record.pages_ok;
      record.bytes += reply.bytes;
    } else if (record.status == 0) {
      record.status = static_cast<std::int32_t>(reply.status);
    }
  }
  if (mark.is_recorded) tracer_->push(record);
  if (!mark.is_exported) return;
  record.id = tracer_->exports()->new_id();
  tracer_->exports()->push({record, mark.parent});
}

void Server::release(Job& job) noexcept {
  SIMM_CHECK(!job.linked() && job.moves == 0);
  queue_.leave(job);
  job.incoming->server_data = nullptr;
  job.incoming = nullptr;
  --jobs_busy_;
  free_jobs_.push_front(job);
}

}  // namespace simm::server
