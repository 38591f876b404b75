// Operation: one batch on its way through the engine. A session fills it with validated private
// values, submits it, and gets it back exactly once, when nothing touches its slices any more.
// Owned by the engine's pool (preallocated; untouched pages of a large batch cost no memory).
// Thread: the data agent of the engine.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/base/tracer.h"
#include "daemon/transport/request.h"

namespace simm::engine {

class OperationEvents;

struct Operation {
  // Filled by the session before submit().
  transport::RequestHeader header;   // epoch is set by the engine; deadline_ns is absolute
  OperationEvents* owner = nullptr;  // told when it is done
  std::uint64_t owner_data = 0;      // the owner's own (lane, submission)
  std::uint64_t client_token = 0;
  std::uint32_t page_count = 0;
  std::uint32_t page_first = 0;  // the client's index of page 0, for writing results

  // The session fills every field of pages[0, page_count) but hash and group, which the engine
  // computes (only it knows the cluster's seed). pages[i].index is the page's position in the
  // client's batch: the engine sorts pages by owner, so read results by it:
  // replies[pages[i].index] answers pages[i].
  std::array<transport::PageRequest, ipc::kPagesPerSubmissionMax> pages;
  std::array<transport::PageReply, ipc::kPagesPerSubmissionMax> replies;
  std::array<char, ipc::kKeyArenaBytes> key_bytes;  // what pages[i].key points into

  // Made by this daemon itself: a fetch for others (it goes to the owner), or a put of what moves
  // with its slot (header.is_moved).
  bool is_fetch = false;
  // The engine's own: the same write as another operation, of the replicas of its objects.
  bool is_replica = false;
  Operation* other = nullptr;  // that one, of both
  bool has_hashes = false;     // its pages have their hashes and groups already
  // It may be answered late (a call of moves/move_teller.h), so it takes nobody's last credit.
  bool may_be_late = false;

  // The engine's own state.
  base::TimeNs cancel_ns = 0;       // the deadline that it has now minus fence budget
  std::uint32_t requests_open = 0;  // posted and neither replied nor fenced
  Status status = Status::ok;       // timeout: a page of it got no answer in time
  std::uint64_t bytes_moved = 0;

  // When its stages ended, by OperationStamp. Of a sampled one (header.trace_id) the session fills
  // what it knows, the engine the rest; of others they mean nothing.
  std::array<base::TimeNs, base::kTraceStampsMax> stamps_ns{};
  base::TraceMark trace_mark;  // of a sampled one: the session's
  base::PeerId first_peer;     // whom the first message that was accepted went to

  base::TimeNs& stamp_ns(base::OperationStamp stamp) noexcept {
    return stamps_ns[static_cast<std::size_t>(stamp)];
  }
};

class OperationEvents {
public:
  virtual ~OperationEvents() = default;
  // The operation goes back to the pool when this returns.
  virtual void on_complete(Operation& operation) noexcept = 0;
  // Something of it has moved, and it has more time than was known before (patience_ns).
  virtual void on_progress(Operation&) noexcept {}
  // Its time is over, and what copies for it has not let go of its memory: again and again, so that
  // whoever waits knows that this daemon lives.
  virtual void on_overdue(Operation&) noexcept {}
};

// What a session sees of the engine.
class OperationSink {
public:
  virtual ~OperationSink() = default;
  // nullptr: none free now; leave the submission in the ring and come back in a later turn.
  virtual Operation* allocate() noexcept = 0;
  // Gives back an operation that was never submitted.
  virtual void release(Operation& operation) noexcept = 0;
  // Always accepted; on_complete() follows by deadline_ns + fence_grace, from a later do_work().
  virtual void submit(Operation& operation) noexcept = 0;
  // What `owner` has submitted ends by `deadline_ns` at the latest: nobody waits for it. It looks
  // at all operations, so it is for the end of a session.
  virtual void end_soon(const OperationEvents& owner, base::TimeNs deadline_ns) noexcept = 0;
};

}  // namespace simm::engine
