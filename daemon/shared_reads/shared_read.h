// SharedRead: one object on its way to several requesters of this node, and for a while after that
// a copy of it. SharedReadJob: a request under way. Waiter: a page of one that waits for a shared
// read. Plain numbers in Tables of the shared-read server. Thread: its data agent.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"
#include "daemon/store/space/table.h"
#include "daemon/transport/transport.h"
#include "ipc/layout.h"

namespace simm::shared_reads {

struct Waiter {
  store::Link link;  // in its shared read
  std::uint32_t job;
  std::uint32_t shared_read;
  std::uint16_t page;
};

enum class SharedReadState : std::uint8_t {
  queued = 0,    // waits for an operation of the engine
  fetching = 1,  // its extent may be written
  ready = 2,     // its extent holds a whole object
  failed = 3,    // `status` says why; found by nobody any more
};

struct SharedRead {
  // Its name. The index leads to it while `indexed`: others may join it.
  base::KeyHash hash;
  base::TenantId tenant;
  base::NamespaceId name_space;
  std::uint32_t key_bytes;
  bool indexed;
  SharedReadState state;
  Status status;
  std::uint32_t depth;
  std::uint32_t share;  // of its tenant

  base::TimeNs begun_ns;         // of the fetch: what it returns is not older
  base::TimeNs confirmed_ns;     // the same, or later: the owner had an object of that key then
  base::TimeNs used_ns;          // somebody was served
  std::uint64_t serial;          // of all shared reads of the shard, this one's; never again
  bool confirming;               // its owner is being asked
  bool immutable;                // somebody asked who knows that the key has one value for ever
  base::TimeNs deadline_ns;      // the last one of its waiters
  base::TimeNs patience_ns;      // the longest one of its waiters
  std::uint32_t mark;            // of this node's writes when the fetch began
  std::uint32_t lease_ms;        // that the fetch asks for
  std::uint32_t users;           // copies under way
  std::uint32_t block;           // in the extent allocator
  std::uint64_t extent_offset;   // in the memory of the server
  std::uint64_t capacity_bytes;  // the length of the view that it was fetched for
  std::uint64_t bytes;           // of the object; ready only
  store::Link order;             // in the list of its state: queued, being served, or idle
  store::Link idle_of_share;     // among the idle ones of its tenant
  store::Link age;               // among all that were fetched, the oldest fetch first
  store::Link confirmable;       // among the immutable ones that the confirmer looks after
  store::IndexList<Waiter, &Waiter::link> waiters;
  char key[ipc::kKeyBytesMax];
};

struct SharedReadJob {
  transport::Incoming* incoming;
  std::uint32_t number;
  std::uint32_t share;       // of its tenant
  std::uint32_t taken;       // pages that were looked at
  std::uint32_t pages_open;  // not looked at, waiting or moving
  std::uint32_t moves;
  store::Link arrived;  // while there are pages to look at
};

// The pages of a job.
struct SharedReadPages {
  std::array<transport::PageReply, ipc::kPagesPerSubmissionMax> replies;
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax> waiters;       // of a page that waits
  std::array<std::uint32_t, ipc::kPagesPerSubmissionMax> shared_reads;  // of a page that moves
};

}  // namespace simm::shared_reads
