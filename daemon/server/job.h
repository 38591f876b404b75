// Job: a get or put request under way at a server. Preallocated; the page arrays lie apart in
// memory that costs nothing before it is used, because few jobs have 1,024 pages. Thread: the
// server's data agent.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/intrusive_list.h"
#include "daemon/base/tracer.h"
#include "daemon/store/store.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::server {

struct JobTag {};

// What is held for one page while its bytes move. Zero is "nothing".
struct PageWork {
  store::ReadPin pin;              // get
  store::Reservation reservation;  // put
  std::uint64_t age;               // of its move: what the fair queue gave
  bool verify;                     // get: compare the digest of what was sent
};

struct JobPages {
  std::array<transport::PageReply, ipc::kPagesPerSubmissionMax> replies;
  std::array<PageWork, ipc::kPagesPerSubmissionMax> work;
};

// On at most one list at a time: its requester's queue while it can issue a move, the list of those
// that wait for space, the free list; on none while it waits for moves only.
struct Job : base::ListLink<JobTag> {
  transport::Incoming* incoming = nullptr;  // null: free
  JobPages* pages = nullptr;                // its own, for life
  bool waits_for_space = false;
  bool waits_for_arrival = false;  // its next page is with the former owner of its slot
  bool stopped = false;            // no more moves: cancelled or out of time
  bool cancelled = false;
  bool is_small = false;     // asks for few bytes: may pass large requests
  std::uint32_t turns = 0;   // in the fair queue
  std::uint32_t next = 0;    // the first page that was not started
  std::uint32_t waited = 0;  // pages before this one have waited for their arrival, or need not
  std::uint32_t moves = 0;
  std::uint64_t move_bytes = 0;
  std::uint64_t evicted_bytes = 0;  // for the page that waits for room
  base::Epoch epoch = 0;
  base::TimeNs deadline_ns = 0;
  base::TimeNs space_deadline_ns = 0;    // until when a put waits for room
  base::TimeNs arrival_deadline_ns = 0;  // until when a read waits for objects on their way
  // By RequestStamp, of a request with a trace id.
  std::array<base::TimeNs, base::kTraceStampsMax> stamps_ns;

  [[nodiscard]] bool is_traced() const noexcept { return incoming->header.trace_id != 0; }
  void stamp(base::RequestStamp at, base::TimeNs now_ns) noexcept {
    stamps_ns[static_cast<std::size_t>(at)] = now_ns;
  }
};

using JobList = base::IntrusiveList<Job, JobTag>;

}  // namespace simm::server
