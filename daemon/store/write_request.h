// WriteRequest: a put, as a store is asked for room for it, and what the store answers.
// Thread: the data agent of the store; plain values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/object_key.h"
#include "daemon/store/space/table.h"
#include "ipc/layout.h"

namespace simm::store {

// Room for an object that is being written.
struct Reservation {
  std::uint32_t record = kNone;
  std::span<std::byte> extent;  // exactly as long as the object
};

struct WriteRequest {
  ObjectKey key;
  std::uint64_t length = 0;  // 1 .. ipc::kValueBytesMax
  ipc::PutMode mode = ipc::PutMode::if_absent;
  base::TimeNs ttl_ns = 0;  // from publish on; 0: no limit
  std::uint32_t depth = 0;  // position in its prefix, in pages; 0: unknown. Tails leave first
  std::uint64_t evicted_bytes = 0;  // what the last answer about this put said; 0: it is the first
};

enum class WriteStart : std::uint8_t {
  reserved,
  already_present,   // if_absent: present_length says how long the object is
  wait,              // no room in this turn, eviction goes on: ask again in a later one
  no_space,          // longer than the arena or the tenant's quota, or it has cost too many others
  too_many_tenants,  // no account for the tenant now
};

struct WriteResult {
  WriteStart start = WriteStart::wait;
  Reservation reservation;
  std::uint64_t present_length = 0;
  std::uint64_t evicted_bytes = 0;  // for this put until now, in this call and those before it
};

// A put that has evicted so many times its own bytes, and this much beside, is refused. So its cost
// to others has a limit even when no eviction makes a hole that is long enough.
inline constexpr std::uint64_t kEvictionTimesMax = 2;
inline constexpr std::uint64_t kEvictionSlackBytes = std::uint64_t{64} << 20;

// How many bytes one put may evict. A short object may have bad luck with where its victims lie.
constexpr std::uint64_t eviction_budget(std::uint64_t arena_bytes, std::uint64_t extent_bytes) {
  return kEvictionTimesMax * extent_bytes + std::min(arena_bytes / 16, kEvictionSlackBytes);
}

}  // namespace simm::store
