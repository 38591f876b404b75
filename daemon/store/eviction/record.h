// Record: what the store knows about one object, and its entry in the metadata table, which may
// outlive the process. Group: the objects that were placed together, are evicted together and share
// one lease. Both are plain numbers in Tables of the store.
//
// A record has two kinds of fields. Those of the object say the same in the next life of the
// process: only its seal, which covers them, makes them true. Those of this life are marked so;
// whoever recovers a table ignores them. Thread: the data agent of the store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"
#include "daemon/store/space/table.h"
#include "ipc/layout.h"

namespace simm::store {

// Where an element sits in an ExpiryWheel.
struct WheelLink {
  Link link;
  std::uint16_t bucket = 0;
};

enum class RecordState : std::uint8_t {
  unused = 0,
  reserved = 1,  // being written: in no index, invisible
  live = 2,      // in the index
  dead = 3,      // gone from the index, but somebody still reads or writes its extent
};

inline constexpr std::uint32_t kInlineKeyBytes = 112;

struct alignas(64) Record {
  // What a look-up reads: with a key of up to 68 bytes two neighbouring cache lines.
  base::KeyHash hash;
  base::TenantId tenant;
  base::NamespaceId name_space;
  base::TimeNs expires_ns;  // 0: no limit of its own; reserved: the TTL, from publish on
  std::uint64_t length;     // payload bytes
  std::uint32_t seal;       // of record_seal.h: 0 unless it is live, written last, cleared first
  std::uint32_t group;      // this life's: number in the group table; live only
  std::uint16_t key_bytes;
  RecordState state;  // this life's
  bool if_absent;     // this life's; reserved: how it wants to be published
  char key_inline[kInlineKeyBytes];

  // What a read and a removal need.
  std::uint32_t key_check;  // crc32c of the key, wherever it is
  std::uint64_t group_hash;
  std::uint64_t generation;      // of this store; each publish is a new one
  base::Epoch epoch;             // of the map under which it was published
  std::uint64_t payload_digest;  // xxh3-64
  std::uint64_t place;           // of record_seal.h: where the extent is, with a check of its own
  std::uint32_t long_key;  // number in the table of long keys; kNone: the key is in key_inline

  // This life's.
  WheelLink ttl;
  std::uint32_t block;    // number in the extent allocator
  std::uint32_t account;  // number of the tenant's account
  Link member;            // in its group
  std::uint32_t pins;
  bool unverified;          // of an earlier life: nobody has compared its bytes with the digest yet
  std::uint8_t depth_step;  // of depth_queue.h; 0: unknown, or of an earlier life
};
// The layout of the metadata table: another one is another kMetaTableFormat.
static_assert(sizeof(Record) == 256);
static_assert(offsetof(Record, tenant) == 16 && offsetof(Record, name_space) == 24);
static_assert(offsetof(Record, expires_ns) == 32 && offsetof(Record, length) == 40);
static_assert(offsetof(Record, seal) == 48 && offsetof(Record, key_bytes) == 56);
static_assert(offsetof(Record, key_inline) == 60 && offsetof(Record, key_check) == 172);
static_assert(offsetof(Record, group_hash) == 176 && offsetof(Record, generation) == 184);
static_assert(offsetof(Record, epoch) == 192 && offsetof(Record, payload_digest) == 200);
static_assert(offsetof(Record, place) == 208 && offsetof(Record, long_key) == 216);

// Keys longer than kInlineKeyBytes: rare, so one size.
struct LongKey {
  char bytes[ipc::kKeyBytesMax];
};

struct alignas(64) Group {
  std::uint64_t hash;
  std::uint64_t extent_bytes;  // of its members
  base::TimeNs lease_until_ns;
  base::TimeNs used_ns;  // last use
  IndexList<Record, &Record::member> members;
  std::uint32_t account;
  Link order;         // in one of its account's lists of leased groups, the policy's queue, or none
  WheelLink lease;    // scheduled at or before lease_until_ns while leased
  bool leased : 1;    // which of the three it is on
  bool queued : 1;    // the policy's: while it may be evicted
  bool probed : 1;    // leased by nothing but probes: on the account's list of those
  bool pinned : 1;    // kept by somebody's wish, leased or not: on none
  std::uint8_t uses;  // the policy's: up to 255
  std::uint8_t depth_step;    // of depth_queue.h, told by who made it; 0: unknown
  std::uint8_t counted_tick;  // the policy's: low bits of when a use was last counted
};
static_assert(sizeof(Group) == 64);

}  // namespace simm::store
