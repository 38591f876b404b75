// Store: the objects of one shard in DRAM. Payloads lie in an arena that the caller maps, metadata
// in address space mapped ahead. After create() nothing is allocated, locked or waited for.
//
// Contracts
//  - A reservation is invisible until publish(), which makes it visible at once or not at all.
//  - A pin (begin_read) keeps the extent's bytes as they are until end_read(), whatever becomes of
//    the object: an extent is used again only after its last pin and its reservation are gone.
//  - An object under a lease is lost only by remove(), by replacement, by damage, with its slot, or
//    because leases hold more than their budget; each such loss is counted by cause. A lease ends
//    with the object's TTL. An object without a lease may leave at any time.
//  - An object that was published before its slot was lost is not there any more, from the moment
//    that keep_slots() says so, whether the slot came back or not. Its bytes go in later turns.
//  - Bytes add up: arena == free + extents; extents == live + reserved + lingering + held for what
//    is being moved (audit()).
//  - An object may move in the arena, but never while it is pinned.
//
// Time is an argument: every call says what time it is (monotonic, never going back).
// Thread: the data agent that owns the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/slot_departures.h"
#include "daemon/base/slot_ownership.h"
#include "daemon/store/departing_objects.h"
#include "daemon/store/eviction/object_key.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/store/eviction/tenant_use.h"
#include "daemon/store/key_walker.h"
#include "daemon/store/object_book.h"
#include "daemon/store/pool/record_seal.h"
#include "daemon/store/pool/recovery_crew.h"
#include "daemon/store/pool/shard_memory.h"
#include "daemon/store/read_pin.h"
#include "daemon/store/room_maker.h"
#include "daemon/store/scrub_object.h"
#include "daemon/store/store_stats.h"
#include "daemon/store/write_request.h"
#include "simm/expected.h"

namespace simm::store {

// An object's length; 0: not there (no object is empty).
using ObjectLength = std::uint64_t;

// Whether a use makes its group the youngest, or only the first use of a series does.
enum class UseOrder : std::uint8_t { youngest, kept };

// A lease_ns that asks for none.
inline constexpr base::TimeNs kNoLease = ~base::TimeNs{0};

class Store {
public:
  // `memory` outlives the store. Kept contents are recovered: what the metadata table proves is
  // there again, all else is free. Leases are not. A table of another shape gives an empty store.
  // Fails when address space or memory is refused. It needs nothing but its arguments, so stores
  // may be made side by side on several threads.
  static Expected<std::unique_ptr<Store>> create(const StoreConfig& config,
                                                 const ShardMemory& memory);
  // create() in two steps, because the second one may take minutes. Between them only
  // tenant_table() may be asked of the store. recover() gets the same memory, once, and may run on
  // any thread. After an error the store is of no use, and the memory proves what it proved before.
  static Expected<std::unique_ptr<Store>> open(const StoreConfig& config,
                                               const ShardMemory& memory);
  [[nodiscard]] Outcome recover(const ShardMemory& memory, RecoveryCrew& crew);
  // With a table that goes with the store.
  static Expected<std::unique_ptr<Store>> create(const StoreConfig& config,
                                                 std::span<std::byte> arena);
  // What one object takes of tables when all are in use: record, group, two entries of an index,
  // its extent and a hole. Its key has up to kInlineKeyBytes bytes, and it has a group of its own.
  static constexpr std::uint64_t kBytesPerObject =
      sizeof(Record) + sizeof(Group) + 2 * 20 + 2 * sizeof(PackedBlock);
  // How long a ShardMemory's table has to be: address space, of which a page costs memory when it
  // is first used. 0: this configuration is refused.
  [[nodiscard]] static std::uint64_t table_bytes_for(const StoreConfig& config,
                                                     std::uint64_t payload_bytes) noexcept;
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Pins the object and leases its group (0: for the default time; kNoLease: not). ok, not_found,
  // or corrupt when its record turned out to be damaged (it is quarantined then).
  // With UseOrder::kept a group that has a lease keeps its age.
  [[nodiscard]] Status begin_read(const ObjectKey& key, base::TimeNs lease_ns, base::TimeNs now_ns,
                                  ReadPin& pin, UseOrder order = UseOrder::youngest) noexcept;
  void end_read(const ReadPin& pin) noexcept;
  // The pinned bytes were compared with their digest, and match.
  void note_verified(const ReadPin& pin) noexcept;
  // Takes the object out of sight because its bytes are wrong. The pin stays valid.
  void quarantine(const ReadPin& pin, base::TimeNs now_ns) noexcept;

  [[nodiscard]] WriteResult begin_write(const WriteRequest& request, base::TimeNs now_ns) noexcept;
  // Makes it visible. An if_absent write that lost a race discards its own bytes. Either way the
  // answer is the length of the object that is visible now.
  ObjectLength publish(const Reservation& reservation, std::uint64_t digest, base::Epoch epoch,
                       base::TimeNs now_ns) noexcept;
  void abandon(const Reservation& reservation) noexcept;

  // Leases the group when the object is there. That is no use: only a read or a put is.
  [[nodiscard]] ObjectLength exists(const ObjectKey& key, base::TimeNs lease_ns,
                                    base::TimeNs now_ns) noexcept;
  // Keeps the object's group from eviction until it is unpinned, or all its objects are gone by
  // another cause. not_found, or no_space: pins would keep more than their budget allows. Objects
  // that join the group are kept too, until they exceed the budget: then the pin ends, counted.
  [[nodiscard]] Status pin(const ObjectKey& key, base::TimeNs now_ns) noexcept;
  // not_found: no such object. One that is not pinned is answered with ok.
  [[nodiscard]] Status unpin(const ObjectKey& key, base::TimeNs now_ns) noexcept;

  // True when it was there.
  bool remove(const ObjectKey& key, base::TimeNs now_ns) noexcept;
  // Makes the object's group the youngest. kNoLease: without a lease (for puts).
  void touch(const ObjectKey& key, base::TimeNs lease_ns, base::TimeNs now_ns) noexcept;

  // Drops, bit by bit, every object whose slot is not owned since the object was published, unless
  // it may move on with its slot (`departures`; null: none may). Both outlive the store; later maps
  // may be written to them between two calls of the store.
  void keep_slots(const base::SlotOwnership& ownership,
                  const base::SlotDepartures* departures = nullptr) noexcept {
    book_.keep_slots(ownership, departures);
  }
  // Objects of lost slots may still hold memory.
  [[nodiscard]] bool dropping_slots() const noexcept { return book_.ownership != nullptr; }

  // Objects that follow their slots to other owners. A pin of theirs ends with end_read().
  [[nodiscard]] DepartingObjects departing() noexcept { return DepartingObjects(book_); }

  // Scrubbing. Looks at the record of that number, and quarantines it when it is damaged.
  [[nodiscard]] ScrubLook look_at(std::uint32_t record, base::TimeNs now_ns,
                                  ScrubObject& object) noexcept;
  // Where its bytes are now; empty: it is gone. Good until the next call of anything else.
  [[nodiscard]] std::span<const std::byte> bytes_of(const ScrubObject& object) const noexcept;
  // All its bytes were read. False: they are not `sound`, and it was there, and is quarantined.
  [[nodiscard]] bool end_scrub(const ScrubObject& object, bool sound, base::TimeNs now_ns) noexcept;
  // What becomes of objects, for a listener.
  [[nodiscard]] base::KeyEventTap& key_events() noexcept { return book_.key_events; }
  [[nodiscard]] std::span<std::byte> arena() const noexcept { return book_.arena; }
  // Numbers of records are 1 .. this.
  [[nodiscard]] std::uint32_t records_highest() const noexcept { return book_.records.highest(); }
  // And never more than this.
  [[nodiscard]] std::uint32_t records_max() const noexcept { return book_.records.capacity(); }
  [[nodiscard]] std::uint64_t objects() const noexcept { return book_.counts.objects; }
  // Objects of an earlier life that nobody has compared with their digest yet.
  [[nodiscard]] std::uint64_t unverified() const noexcept { return book_.counts.unverified; }
  [[nodiscard]] bool is_unverified(const ScrubObject& object) const noexcept {
    return book_.records[object.record].unverified;
  }

  // Ends leases, drops what has expired or lost its slot, evicts below the watermark: a bounded
  // amount of each.
  int do_work(base::TimeNs now_ns) noexcept;

  // For batches: call each some keys ahead of the next, and of the operation itself.
  void prefetch_index(base::KeyHash hash) const noexcept { book_.index.prefetch(hash.low); }
  // Returns a candidate for the next two.
  [[nodiscard]] std::uint32_t prefetch_record(base::KeyHash hash) const noexcept {
    const std::uint32_t candidate = book_.index.find(hash.low, [](std::uint32_t) { return true; });
    const auto* lines = reinterpret_cast<const char*>(&book_.records[candidate]);
    __builtin_prefetch(lines);
    __builtin_prefetch(lines + 64);
    return candidate;
  }
  void prefetch_group(std::uint32_t record) const noexcept {
    book_.groups.prefetch(book_.records[record].group);
  }
  void prefetch_order(std::uint32_t record) const noexcept {
    book_.groups.prefetch_neighbours(book_.records[record].group);
  }

  // True until the next call. No copy: the server asks before each of its agent's sleeps.
  [[nodiscard]] const StoreStats& stats() noexcept;
  // What each tenant has of it. Rows for all that there may be are there at set-up.
  [[nodiscard]] TenantTable tenant_table() const {
    return {std::vector<TenantUse>(book_.groups.accounts().end() - 1), 0};
  }
  void tell_tenants(TenantTable& table) const noexcept {
    table.count = book_.groups.accounts().tell(table.rows);
  }
  // Free bytes that an object of this length could not have as they lie. For measurements:
  // O(holes).
  [[nodiscard]] std::uint64_t short_hole_bytes(std::uint64_t length) const noexcept {
    return book_.extents.short_hole_bytes(length);
  }
  // Recounts everything; null, or what does not add up. For tests: O(everything).
  [[nodiscard]] const char* audit() const noexcept { return book_.audit(room_.held_bytes()); }

private:
  friend struct StoreTestAccess;  // damages records, which nobody else can
  Store(const StoreConfig& config, std::span<std::byte> arena, ReservedMemory memory,
        const StoreTables& tables, const MetaTable& meta, std::unique_ptr<EvictionPolicy> policy);

  void prefetch_cold(std::uint32_t record) const noexcept {
    const auto* lines = reinterpret_cast<const char*>(&book_.records[record]);
    __builtin_prefetch(lines + 128);
    __builtin_prefetch(lines + 192);
  }
  // Most of what a short copy costs is the wait for its first lines. Inline always: g++ 12 takes a
  // function that does nothing but prefetch for one without effect, and drops calls of it.
  [[gnu::always_inline]] void prefetch_payload(const Record& record) const noexcept {
    constexpr std::uint64_t kAheadBytes = 4096;
    const std::byte* const bytes = book_.arena.data() + extent_offset(record);
    const std::uint64_t ahead = record.length < kAheadBytes ? record.length : kAheadBytes;
    for (std::uint64_t at = 0; at < ahead; at += 64) __builtin_prefetch(bytes + at);
  }
  [[nodiscard]] base::TimeNs clamped_lease(base::TimeNs lease_ns) const noexcept;
  [[nodiscard]] bool is_there(const ScrubObject& object) const noexcept;
  [[nodiscard]] bool drop_damaged(std::uint32_t record, base::TimeNs now_ns) noexcept;
  [[nodiscard]] Reservation reserve(const WriteRequest& request, std::uint32_t account,
                                    std::uint32_t block) noexcept;
  void keep_key(Record& record, std::string_view key) noexcept;

  ObjectBook book_;
  RoomMaker room_;
  KeyWalker walker_;
};

}  // namespace simm::store
