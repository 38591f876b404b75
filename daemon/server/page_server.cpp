#include "daemon/server/page_server.h"

#include <algorithm>

#include "daemon/base/hash.h"
#include "daemon/server/key_scan.h"

namespace simm::server {
namespace {

// How many bytes of the object go into the slice. Subtracts, never adds: nothing overflows.
Status range_of(const transport::RequestHeader& header, const transport::PageRequest& page,
                std::uint64_t object_bytes, std::uint64_t& bytes) noexcept {
  const std::uint64_t view_bytes = page.slice.length;
  if (page.object_offset == 0 && !header.ranged) {
    if (header.exact_size && object_bytes != view_bytes) return Status::size_mismatch;
    if (object_bytes > view_bytes) return Status::invalid_argument;
    bytes = object_bytes;
    return Status::ok;
  }
  if (page.object_offset >= object_bytes) {
    return header.exact_size ? Status::size_mismatch : Status::invalid_argument;
  }
  const std::uint64_t left = object_bytes - page.object_offset;
  if (header.exact_size && view_bytes > left) return Status::size_mismatch;
  bytes = std::min(view_bytes, left);
  return Status::ok;
}

}  // namespace

void PageServer::answer(Job& job, std::uint16_t page, Status status, std::uint64_t bytes) noexcept {
  job.pages->replies[page] = {status, bytes};
  switch (status) {
    case Status::invalid_argument:
      counters_.invalid_pages.add();
      break;
    case Status::not_found:
      counters_.misses.add();
      break;
    case Status::size_mismatch:
      counters_.size_mismatches.add();
      break;
    case Status::corrupt:
      counters_.corrupt.add();
      break;
    case Status::timeout:
      counters_.timeouts.add();
      break;
    case Status::cancelled:
      counters_.cancelled_pages.add();
      break;
    case Status::no_space:
      counters_.no_space.add();
      break;
    case Status::wrong_epoch:
      counters_.wrong_epoch.add();
      break;
    default:
      break;
  }
}

// ---- get ----

bool PageServer::sample() noexcept {
  switch (config_.verify) {
    case base::VerifyMode::always:
      return true;
    case base::VerifyMode::never:
      return false;
    case base::VerifyMode::sampled:
      break;
  }
  if (++sample_ < config_.verify_one_in) return false;
  sample_ = 0;
  return true;
}

bool PageServer::ranged_is_sound(const store::ReadPin& pin, base::TimeNs now_ns) noexcept {
  // What an earlier life left is compared once, however long that takes.
  if (!pin.unverified && (pin.bytes.size() > config_.verify_ranged_bytes_max || !sample())) {
    return true;
  }
  counters_.verified.add();
  if (base::payload_digest(pin.bytes.data(), pin.bytes.size()) == pin.digest) {
    store_.note_verified(pin);
    return true;
  }
  store_.quarantine(pin, now_ns);
  return false;
}

PageServer::Started PageServer::start_get(Job& job, std::uint16_t page,
                                          base::TimeNs now_ns) noexcept {
  transport::Incoming& incoming = *job.incoming;
  const transport::PageRequest& request = incoming.pages[page];
  if (request.slice.length == 0) {
    answer(job, page, Status::invalid_argument, 0);
    return {};
  }
  if (!slots_.serves(job.epoch, request.group)) {
    answer(job, page, Status::wrong_epoch, 0);
    return {};
  }
  // A batch got its order of use when it came. But an object may have come after that: a hit is
  // always under a lease.
  const store::UseOrder order =
      incoming.pages.size() > 1 ? store::UseOrder::kept : store::UseOrder::youngest;
  store::ReadPin pin;
  Status status = store_.begin_read(key_of(incoming.header, request),
                                    incoming.header.lease_ms * base::kNsPerMs, now_ns, pin, order);
  if (status == Status::not_found && awaits(job, page, now_ns)) {
    return {Started::What::arriving, 0};
  }
  note_end_of_wait(job, page, status == Status::ok);
  if (status != Status::ok) {
    answer(job, page, status, 0);
    return {};
  }
  std::uint64_t bytes = 0;
  status = range_of(incoming.header, request, pin.bytes.size(), bytes);
  const bool whole = bytes == pin.bytes.size();
  if (status == Status::ok && !whole && !ranged_is_sound(pin, now_ns)) status = Status::corrupt;
  if (status != Status::ok) {
    store_.end_read(pin);
    answer(job, page, status, 0);
    return {};
  }
  PageWork& work = job.pages->work[page];
  work.pin = pin;
  // What costs nothing is always compared.
  work.verify = whole && (pin.unverified || incoming.responder->always_digests() || sample());
  job.pages->replies[page].bytes = bytes;
  incoming.responder->push(incoming, page, pin.bytes.subspan(request.object_offset, bytes),
                           work.verify);
  if (request.slice.is_reached_by(memory::Reach::helper)) {
    incoming.responder->name_pushed(incoming,
                                    {config_.origin, pin.generation, request.object_offset});
  }
  return {Started::What::moving, bytes};
}

// ---- what is on its way from a former owner ----

bool PageServer::ask_for(const transport::Incoming& incoming, base::TimeNs now_ns) noexcept {
  bool awaits_one = false;
  for (const transport::PageRequest& page : incoming.pages) {
    if (!slots_.serves(incoming.header.epoch, page.group)) continue;
    awaits_one |=
        expected_.awaits(base::slot_of(page.group), page.hash, incoming.header.tenant, now_ns);
  }
  return awaits_one;
}

bool PageServer::awaits(Job& job, std::uint16_t page, base::TimeNs now_ns) noexcept {
  if (now_ns >= job.arrival_deadline_ns || !expected_.has_any(now_ns)) return false;
  const transport::PageRequest& request = job.incoming->pages[page];
  const bool does = expected_.awaits(base::slot_of(request.group), request.hash,
                                     job.incoming->header.tenant, now_ns);
  if (does) job.waited = page + 1u;
  return does;
}

void PageServer::note_end_of_wait(Job& job, std::uint16_t page, bool is_hit) noexcept {
  if (job.waited != page + 1u) return;
  job.waited = 0;
  (is_hit ? counters_.read_through_hits : counters_.read_through_misses).add();
}

PageServer::Started PageServer::start_exists(Job& job, std::uint16_t page,
                                             base::TimeNs now_ns) noexcept {
  const transport::RequestHeader& header = job.incoming->header;
  const transport::PageRequest& request = job.incoming->pages[page];
  transport::PageReply& reply = job.pages->replies[page];
  if (!slots_.serves(job.epoch, request.group)) {
    answer(job, page, Status::wrong_epoch, 0);
    return {};
  }
  const std::uint64_t length =
      store_.exists(key_of(header, request), header.lease_ms * base::kNsPerMs, now_ns);
  if (length == 0 && awaits(job, page, now_ns)) return {Started::What::arriving, 0};
  note_end_of_wait(job, page, length > 0);
  reply = {length > 0 ? Status::ok : Status::not_found, length};
  return {};
}

void PageServer::end_get(Job& job, std::uint16_t page, transport::MoveResult result) noexcept {
  PageWork& work = job.pages->work[page];
  const std::uint64_t bytes = job.pages->replies[page].bytes;
  Status status = result.status;
  if (status == Status::ok && work.verify) {
    counters_.verified.add();
    if (result.digest != work.pin.digest) {
      store_.quarantine(work.pin, clock_.now_ns());
      status = Status::corrupt;
    } else if (work.pin.unverified) {
      store_.note_verified(work.pin);
    }
  }
  store_.end_read(work.pin);
  answer(job, page, status, status == Status::ok ? bytes : 0);
  if (status != Status::ok) return;
  counters_.get_pages.add();
  counters_.get_bytes.add(bytes);
  hot_keys_.note_bytes(job.incoming->header, job.incoming->pages[page], bytes);
}

// ---- put ----

// An object that moved is of the tenure before the one that its request names, or is a second copy
// for it, and nobody has written or removed its key since.
Status PageServer::may_arrive(const Job& job, const transport::PageRequest& page) noexcept {
  arrivals_.look_at_time(clock_.now_ns());
  const base::Slot slot = base::slot_of(page.group);
  if (!slots_.serves(job.epoch, page.group)) return Status::invalid_state;
  const transport::RequestHeader& header = job.incoming->header;
  const bool is_kept_twice = config_.replicated.has(header.tenant, header.name_space);
  return arrivals_.may_arrive(slot, page.hash, job.epoch, is_kept_twice) ? Status::ok
                                                                         : Status::invalid_state;
}

void PageServer::refuse_moved(Job& job, std::uint16_t page, Status status) noexcept {
  const transport::PageRequest& request = job.incoming->pages[page];
  const base::Slot slot = base::slot_of(request.group);
  // What broke on its way is offered again.
  const bool comes_again =
      status == Status::transfer_failed || status == Status::timeout || status == Status::cancelled;
  if (!comes_again && arrivals_.is_open(slot, job.epoch)) expected_.end(slot, request.hash);
  counters_.moved_in_refused.add();
  answer(job, page, status, 0);
}

PageServer::Started PageServer::start_put(Job& job, std::uint16_t page,
                                          base::TimeNs now_ns) noexcept {
  transport::Incoming& incoming = *job.incoming;
  const transport::PageRequest& request = incoming.pages[page];
  const std::uint64_t length = request.slice.length;
  if (length == 0 || length > config_.value_bytes_max) {
    answer(job, page, Status::invalid_argument, 0);
    return {};
  }
  if (incoming.header.is_moved) {
    const Status status = may_arrive(job, request);
    if (status != Status::ok) {
      refuse_moved(job, page, status);
      return {};
    }
  } else {
    if (!slots_.serves(job.epoch, request.group)) {
      answer(job, page, Status::wrong_epoch, 0);
      return {};
    }
    note_write(request.group, request.hash);
  }
  store::WriteRequest write;
  write.key = key_of(incoming.header, request);
  write.length = length;
  write.mode = incoming.header.put_mode;
  write.ttl_ns = incoming.header.ttl_ms * base::kNsPerMs;
  write.depth = request.depth;
  write.evicted_bytes = job.evicted_bytes;
  const store::WriteResult result = store_.begin_write(write, now_ns);
  job.evicted_bytes = result.start == store::WriteStart::wait ? result.evicted_bytes : 0;
  switch (result.start) {
    case store::WriteStart::reserved:
      break;
    case store::WriteStart::already_present:
      if (incoming.header.is_moved) expected_.end(base::slot_of(request.group), request.hash);
      answer(job, page, Status::ok, result.present_length);
      return {};
    case store::WriteStart::wait:
      return {Started::What::no_room, 0};
    case store::WriteStart::no_space:
      if (incoming.header.is_moved) {
        refuse_moved(job, page, Status::no_space);
      } else {
        answer(job, page, Status::no_space, 0);
      }
      return {};
    case store::WriteStart::too_many_tenants:
      answer(job, page, Status::out_of_memory, 0);
      return {};
  }
  job.pages->work[page].reservation = result.reservation;
  incoming.responder->pull(incoming, page, result.reservation.extent);
  return {Started::What::moving, length};
}

void PageServer::end_put(Job& job, std::uint16_t page, transport::MoveResult result) noexcept {
  const store::Reservation& reservation = job.pages->work[page].reservation;
  Status status = result.status;
  if (status == Status::ok && job.cancelled) status = Status::cancelled;
  const transport::PageRequest& request = job.incoming->pages[page];
  const bool is_moved = job.incoming->header.is_moved;
  if (status == Status::ok && is_moved) {
    status = result.digest == request.digest ? may_arrive(job, request) : Status::corrupt;
  } else if (status == Status::ok && !slots_.serves(job.epoch, request.group)) {
    status = Status::wrong_epoch;
  }
  // A daemon that was stopped in the middle of the copy may have read what its client wrote after
  // it had given up waiting. What is complete before the deadline is what the client put.
  // So the clock is read after the copy, not when the turn began.
  const base::TimeNs now_ns = clock_.fresh_ns();
  if (status == Status::ok && now_ns >= job.deadline_ns) status = Status::timeout;
  if (status != Status::ok) {
    store_.abandon(reservation);
    if (is_moved) return refuse_moved(job, page, status);
    answer(job, page, status, 0);
    return;
  }
  (is_moved ? counters_.moved_in_objects : counters_.put_pages).add();
  (is_moved ? counters_.moved_in_bytes : counters_.put_bytes).add(reservation.extent.size());
  if (!is_moved) hot_keys_.note_bytes(job.incoming->header, request, reservation.extent.size());
  if (is_moved) {
    ++arrived_;
    expected_.end(base::slot_of(request.group), request.hash);
  }
  const std::uint64_t length = store_.publish(reservation, result.digest, job.epoch, now_ns);
  answer(job, page, Status::ok, length);
}

}  // namespace simm::server
