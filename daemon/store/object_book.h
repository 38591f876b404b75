// ObjectBook: the objects of one shard, where they are (records, index, extents, groups, expiry),
// and what is counted of them.
//
// The nouns of this room share one book, and each changes it in one way: Store reads and publishes,
// RoomMaker and StockKeeper evict, Compactor and GroundMaker move, StoreRecovery fills a new book.
// Its tables are open to them. Whoever changes an entry keeps what audit() recounts.
//
// Time is an argument: every call says what time it is (monotonic, never going back).
// Thread: the data agent that owns the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "daemon/base/clock.h"
#include "daemon/base/key_event_tap.h"
#include "daemon/base/slot_departures.h"
#include "daemon/base/slot_ownership.h"
#include "daemon/store/eviction/eviction_policy.h"
#include "daemon/store/eviction/expiry_wheel.h"
#include "daemon/store/eviction/group_book.h"
#include "daemon/store/eviction/object_key.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/store/pool/meta_table.h"
#include "daemon/store/space/extent_allocator.h"
#include "daemon/store/space/hash_index.h"
#include "daemon/store/space/reserved_memory.h"
#include "daemon/store/store_stats.h"
#include "daemon/store/store_tables.h"

namespace simm::store {

struct ObjectBook {
  // `own` holds `tables`; `payload` and the memory of `kept` outlive the book.
  ObjectBook(const StoreConfig& limits, std::span<std::byte> payload, ReservedMemory own,
             const StoreTables& tables, const MetaTable& kept,
             std::unique_ptr<EvictionPolicy> policy);

  [[nodiscard]] std::string_view key_of(const Record& record) const noexcept;
  [[nodiscard]] bool is(const Record& record, const ObjectKey& key) const noexcept;
  // A live record, or kNone; drops one that has expired, or whose slot was lost.
  [[nodiscard]] std::uint32_t find(const ObjectKey& key, base::TimeNs now_ns) noexcept;

  // A pin of a live record, and its end; true: nobody pins it any more.
  void add_pin(Record& record) noexcept {
    if (record.pins++ == 0) fixed_bytes += ExtentAllocator::rounded(record.length);
  }
  [[nodiscard]] bool end_pin(Record& record) noexcept {
    if (--record.pins > 0) return false;
    if (record.state == RecordState::live) fixed_bytes -= ExtentAllocator::rounded(record.length);
    return true;
  }

  // An object that is visible now.
  void count_in(const Record& record) noexcept;
  void count_eviction(const Record& record) noexcept;
  void tell(const Record& record, base::KeyEventKind kind) noexcept {
    if (key_events.on()) [[unlikely]] {
      tell_listener(record, kind);
    }
  }
  // Of a sealed record.
  [[nodiscard]] base::KeyEvent event_of(const Record& record,
                                        base::KeyEventKind kind) const noexcept;
  void count_lease_loss(const Record& record, LeaseLoss cause, base::TimeNs now_ns) noexcept;

  // Live to dead or, without pins, to nothing. The index entry is the caller's.
  void detach(std::uint32_t record) noexcept;
  // Detaches it, removes it from the index, and tells why.
  void drop(std::uint32_t record, base::KeyEventKind why) noexcept;
  void free_record(std::uint32_t record) noexcept;
  // Evicts some members of a group, `first` (unless kNone) before the others; returns how many.
  std::uint32_t evict_from(std::uint32_t group, bool breaks_lease, base::TimeNs now_ns,
                           std::uint32_t first = kNone) noexcept;

  [[nodiscard]] bool over_quota(std::uint32_t account, std::uint64_t extent_bytes) const noexcept;
  // Who goes next for this need: of its own account when that is over its quota.
  [[nodiscard]] GroupBook::Victim victim_of(const Need& need, base::TimeNs now_ns) const noexcept;

  // Copies the next bytes of an extent to its new place, at most `left` of them, which it takes
  // off. True: all of it is there.
  [[nodiscard]] bool copy_extent(const Block& source, const Block& place, std::uint64_t& copied,
                                 std::uint64_t& left) noexcept;
  // Of one extent, which was pinned for it: it has its new place (unless kNone) or stays.
  void end_move(std::uint32_t block, std::uint32_t place, bool done) noexcept;

  // Drops, bit by bit, every object whose slot is not owned since the object was published, unless
  // it may move on with its slot (null: none may).
  void keep_slots(const base::SlotOwnership& slots, const base::SlotDepartures* leaving) noexcept;
  // A bounded part of that, while `ownership` is set; returns how many records it looked at.
  int sweep_slots(base::TimeNs now_ns) noexcept;

  // Recounts everything; null, or what does not add up. `held_bytes`: extents in use that are no
  // record's. For tests: O(everything).
  [[nodiscard]] const char* audit(std::uint64_t held_bytes) const noexcept;

  const StoreConfig config;
  const std::span<std::byte> arena;
  const ReservedMemory memory;
  MetaTable meta;
  Table<Record> records;
  Table<LongKey> long_keys;
  HashIndex index;
  ExtentAllocator extents;
  GroupBook groups;
  ExpiryWheel<Record, &Record::ttl> ttl_wheel;
  StoreStats counts;
  base::KeyEventTap key_events;
  std::uint64_t fixed_bytes = 0;                   // extents that may not move: not live, or pinned
  std::uint64_t generation = 0;                    // of the last publish
  const base::SlotOwnership* ownership = nullptr;  // while a sweep for lost slots is under way
  const base::SlotDepartures* departures = nullptr;  // the same; what that keeps, for now
  std::uint32_t sweep_next = 0;                      // the record that the sweep looks at next

private:
  // Its slot was lost after it had been published. Asked only while `ownership` is set: it reads a
  // cache line that a look-up does not need otherwise.
  [[nodiscard]] bool disowned(const Record& record) const noexcept {
    const base::Slot slot = base::slot_of(record.group_hash);
    if (ownership->owns_since(slot, record.epoch)) return false;
    return departures == nullptr || !departures->covers(slot, record.epoch);
  }
  void tell_listener(const Record& record, base::KeyEventKind kind) noexcept;
  void drop_disowned(std::uint32_t record, base::TimeNs now_ns) noexcept;
  void count_out(const Record& record) noexcept;
  [[nodiscard]] const char* audit_tallies() const noexcept;
  // `extent_bytes`: of all records.
  [[nodiscard]] const char* audit_accounts(std::uint64_t extent_bytes) const noexcept;
};

}  // namespace simm::store
