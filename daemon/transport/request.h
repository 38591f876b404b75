// Request: what an engine asks of the owner of some keys, and what comes back. Plain values with
// spans into memory of the engine; a transport that crosses a wire encodes them, `local` passes
// them.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"
#include "daemon/base/trace_record.h"
#include "daemon/memory/region.h"
#include "ipc/layout.h"
#include "simm/status.h"

namespace simm::transport {

// One page. `key` points into memory of the operation and stays valid as long as the Request.
struct PageRequest {
  base::KeyHash hash;       // of (tenant, namespace, key)
  std::uint64_t group = 0;  // keyed hash of (tenant, namespace, group_of(key)); slot = its top bits
  const char* key = nullptr;
  std::uint32_t key_bytes = 0;
  std::uint32_t depth = 0;          // hint; 0 = unknown
  memory::Slice slice;              // put: source; get: destination; else empty
  std::uint64_t object_offset = 0;  // get: first byte wanted
  std::uint64_t digest = 0;         // of a put that is moved: xxh3-64 that the object was put with
  std::uint16_t index = 0;          // position in the client's batch (pages are sorted by owner)
};

struct PageReply {
  Status status = Status::ok;
  std::uint64_t bytes = 0;  // get: bytes written to the slice; put, exists: the object's length
};

// What a page says of an exists that is_moved, by which a former owner speaks with the new one.
// Such a page has the group of a slot and no key.
enum class MovedNote : std::uint32_t {
  // It holds the object with that hash; `digest` is its own name of that object, not 0. The answer
  // says only that this was heard.
  object = 0,
  // It has told all that it holds of that slot. hash.low: its shard.
  slot_told = 1,
  // It waits until something is wanted. hash.low: its shard; `digest`: an object that was wanted
  // and is not there any more, or 0. Each page's answer has the name of an object that is wanted,
  // or 0.
  call = 2,
};
inline constexpr std::uint32_t kWantsPerCallMax = 32;

struct RequestHeader {
  ipc::Opcode opcode = ipc::Opcode::noop;
  ipc::PutMode put_mode = ipc::PutMode::if_absent;
  bool exact_size = false;   // get: another stored length than the slice's is a miss
  bool ranged = false;       // get: the slice takes part of a longer object, from object_offset on
  bool shared_read = false;  // get: other processes of the node read it too
  // put, if_absent: the former owner of the slots sends what it has. `epoch` is the one since which
  // the new owner has them. It may be taken into that tenure, and into no other one. exists: the
  // former owner says what it has of that tenure's slots (MovedNote, in `depth` of each page).
  bool is_moved = false;
  // A key of the namespace has one value for ever. For this node's shared reads: it does not leave
  // the node.
  bool immutable = false;
  base::TenantId tenant;
  base::NamespaceId name_space;
  base::Epoch epoch = 0;         // of the map under which the owner was chosen, but for is_moved
  base::TimeNs deadline_ns = 0;  // absolute, on the asking daemon's clock
  // Above 0: given up before the deadline when nothing of it has moved for so long. It decides at
  // the asking node and does not leave it.
  base::TimeNs patience_ns = 0;
  std::uint32_t ttl_ms = 0;
  std::uint32_t lease_ms = 0;  // 0 = the owner's default
  std::uint64_t trace_id = 0;  // of a sampled operation (base/tracer.h), else 0
  // Of one that a receiver of traces is told of (base/trace_export.h): the owner, in another
  // daemon, tells its own receiver what it did for it. With a trace_id only.
  base::TraceName trace;
};

// It changes nothing. Only such a request is asked again when nobody knows what became of the first
// time: another one may have been done, and what it did be superseded since.
[[nodiscard]] constexpr bool is_read(ipc::Opcode opcode) noexcept {
  return opcode == ipc::Opcode::get || opcode == ipc::Opcode::exists;
}

struct Request {
  RequestHeader header;
  std::span<const PageRequest> pages;  // 1 .. kPagesPerSubmissionMax
  // Taken only where more credits than these are free on its route: others come, too.
  std::uint32_t credits_keep = 0;
};

}  // namespace simm::transport
