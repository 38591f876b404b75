// Store: the objects of one shard in DRAM. Payloads lie in an arena that the caller maps, metadata
// in address space mapped ahead; after create() nothing is allocated, locked or waited for.
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
#include "daemon/base/slot_ownership.h"
#include "daemon/store/compaction.h"
#include "daemon/store/eviction/depth_queue.h"
#include "daemon/store/eviction/expiry_wheel.h"
#include "daemon/store/eviction/group_book.h"
#include "daemon/store/eviction/object_key.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/store/eviction/tenant_use.h"
#include "daemon/store/ground.h"
#include "daemon/store/pool/meta_table.h"
#include "daemon/store/pool/record_seal.h"
#include "daemon/store/pool/recovery_crew.h"
#include "daemon/store/pool/recovery_scan.h"
#include "daemon/store/pool/shard_memory.h"
#include "daemon/store/scrub_object.h"
#include "daemon/store/space/extent_allocator.h"
#include "daemon/store/space/hash_index.h"
#include "daemon/store/space/reserved_memory.h"
#include "daemon/store/store_stats.h"
#include "ipc/layout.h"
#include "simm/expected.h"

namespace simm::store {

// A pinned object. `record` is the store's own name of it.
struct ReadPin {
  std::uint32_t record = kNone;
  std::span<const std::byte> bytes;  // the whole payload
  std::uint64_t digest = 0;          // xxh3-64 it was published with
  std::uint64_t generation = 0;
  bool unverified = false;  // of an earlier life: compare before a byte of it is believed
};

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

// A put that has evicted so many times its own bytes, and this much beside, is refused: what it
// costs others has a limit even when nothing that goes makes a hole that is long enough.
inline constexpr std::uint64_t kEvictionTimesMax = 2;
inline constexpr std::uint64_t kEvictionSlackBytes = std::uint64_t{64} << 20;

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
  // tenant_table() may be asked of the store; recover() gets the same memory, once, and may run on
  // any thread. After an error the store is of no use, and the memory proves what it proved before.
  static Expected<std::unique_ptr<Store>> open(const StoreConfig& config,
                                               const ShardMemory& memory);
  [[nodiscard]] Outcome recover(const ShardMemory& memory, RecoveryCrew& crew);
  // With a table that goes with the store.
  static Expected<std::unique_ptr<Store>> create(const StoreConfig& config,
                                                 std::span<std::byte> arena);
  // What one object takes of tables when all are in use, with a key of up to kInlineKeyBytes bytes
  // and a group of its own: record, group, two entries of an index, its extent and a hole.
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
  // Makes it visible. An if_absent write that lost a race discards its own bytes; either way the
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

  // Drops, bit by bit, every object whose slot is not owned since the object was published.
  // `ownership` outlives the store; later maps may be written to it between two calls of the store.
  void keep_slots(const base::SlotOwnership& ownership) noexcept;
  // Objects of lost slots may still hold memory.
  [[nodiscard]] bool dropping_slots() const noexcept { return ownership_ != nullptr; }

  // Scrubbing. Looks at the record of that number, and quarantines it when it is damaged.
  [[nodiscard]] ScrubLook look_at(std::uint32_t record, base::TimeNs now_ns,
                                  ScrubObject& object) noexcept;
  // Where its bytes are now; empty: it is gone. Good until the next call of anything else.
  [[nodiscard]] std::span<const std::byte> bytes_of(const ScrubObject& object) const noexcept;
  // All its bytes were read. False: they are not `sound`, and it was there, and is quarantined.
  [[nodiscard]] bool end_scrub(const ScrubObject& object, bool sound, base::TimeNs now_ns) noexcept;
  // Numbers of records are 1 .. this.
  [[nodiscard]] std::uint32_t records_highest() const noexcept { return records_.highest(); }
  [[nodiscard]] std::uint64_t objects() const noexcept { return counts_.objects; }
  // Objects of an earlier life that nobody has compared with their digest yet.
  [[nodiscard]] std::uint64_t unverified() const noexcept { return counts_.unverified; }
  [[nodiscard]] bool is_unverified(const ScrubObject& object) const noexcept {
    return records_[object.record].unverified;
  }

  // Ends leases, drops what has expired or lost its slot, evicts below the watermark: a bounded
  // amount of each.
  int do_work(base::TimeNs now_ns) noexcept;

  // For batches: call each some keys ahead of the next, and of the operation itself.
  void prefetch_index(base::KeyHash hash) const noexcept { index_.prefetch(hash.low); }
  // Returns a candidate for the next two.
  [[nodiscard]] std::uint32_t prefetch_record(base::KeyHash hash) const noexcept {
    const std::uint32_t candidate = index_.find(hash.low, [](std::uint32_t) { return true; });
    const auto* lines = reinterpret_cast<const char*>(&records_[candidate]);
    __builtin_prefetch(lines);
    __builtin_prefetch(lines + 64);
    return candidate;
  }
  void prefetch_group(std::uint32_t record) const noexcept {
    groups_.prefetch(records_[record].group);
  }
  void prefetch_order(std::uint32_t record) const noexcept {
    groups_.prefetch_neighbours(records_[record].group);
  }

  [[nodiscard]] StoreStats stats() const noexcept;
  // What each tenant has of it. Rows for all that there may be are there at set-up.
  [[nodiscard]] TenantTable tenant_table() const {
    return {std::vector<TenantUse>(groups_.accounts().end() - 1), 0};
  }
  void tell_tenants(TenantTable& table) const noexcept {
    table.count = groups_.accounts().tell(table.rows);
  }
  // Free bytes that an object of this length could not have as they lie. For measurements:
  // O(holes).
  [[nodiscard]] std::uint64_t short_hole_bytes(std::uint64_t length) const noexcept {
    return extents_.short_hole_bytes(length);
  }
  // Recounts everything; null, or what does not add up. For tests: O(everything).
  [[nodiscard]] const char* audit() const noexcept;

private:
  friend struct StoreTestAccess;  // damages records, which nobody else can
  struct Tables;
  Store(const StoreConfig& config, std::span<std::byte> arena, ReservedMemory memory,
        const Tables& tables, const MetaTable& meta, std::unique_ptr<EvictionPolicy> policy);

  void prefetch_cold(std::uint32_t record) const noexcept {
    const auto* lines = reinterpret_cast<const char*>(&records_[record]);
    __builtin_prefetch(lines + 128);
    __builtin_prefetch(lines + 192);
  }
  // Most of what a short copy costs is the wait for its first lines. Inline always: a compiler
  // takes a function that does nothing but prefetch for one without effect, and drops calls of it
  // (g++ 12).
  [[gnu::always_inline]] void prefetch_payload(const Record& record) const noexcept {
    constexpr std::uint64_t kAheadBytes = 4096;
    const std::byte* const bytes = arena_.data() + extent_offset(record);
    const std::uint64_t ahead = record.length < kAheadBytes ? record.length : kAheadBytes;
    for (std::uint64_t at = 0; at < ahead; at += 64) __builtin_prefetch(bytes + at);
  }
  [[nodiscard]] std::string_view key_of(const Record& record) const noexcept;
  [[nodiscard]] bool is(const Record& record, const ObjectKey& key) const noexcept;
  // A live record, or kNone; drops one that has expired.
  [[nodiscard]] std::uint32_t find(const ObjectKey& key, base::TimeNs now_ns) noexcept;
  // Its slot was lost after it had been published. Asked only while dropping_slots(): it reads a
  // cache line that a look-up does not need otherwise.
  [[nodiscard]] bool disowned(const Record& record) const noexcept {
    return !ownership_->owns_since(base::slot_of(record.group_hash), record.epoch);
  }
  [[nodiscard]] bool is_there(const ScrubObject& object) const noexcept;
  [[nodiscard]] bool drop_damaged(std::uint32_t record, base::TimeNs now_ns) noexcept;
  void drop_disowned(std::uint32_t record, base::TimeNs now_ns) noexcept;
  int sweep_slots(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::TimeNs clamped_lease(base::TimeNs lease_ns) const noexcept;
  void keep_key(Record& record, std::string_view key) noexcept;

  // Takes over the records of an earlier life, numbers up to `highest`. Of a new store only.
  [[nodiscard]] Outcome take_over(std::uint32_t highest, const ShardMemory& memory,
                                  RecoveryCrew& crew);
  // False: it was stopped.
  bool readmit_all(const std::vector<RecoveryScan::Found>& by_age, RecoveryCrew& crew);
  void readmit(std::uint32_t record) noexcept;
  void regroup(std::uint32_t record, base::TimeNs now_ns) noexcept;
  void release_unproved(std::uint32_t highest);

  [[nodiscard]] Reservation reserve(const WriteRequest& request, std::uint32_t account,
                                    std::uint32_t block) noexcept;
  // `bytes_before`: what had been evicted in all when this put began to make room.
  [[nodiscard]] bool make_room(const WriteRequest& request, std::uint32_t account,
                               base::TimeNs now_ns, std::uint32_t& block,
                               std::uint64_t bytes_before) noexcept;
  // Something is being made that the put does well to wait for.
  [[nodiscard]] bool is_served(const WriteRequest& request) const noexcept;
  // The next victim, or the object that is replaced; returns how many went.
  std::uint32_t evict_next(const WriteRequest& request, const Need& need, bool for_quota,
                           base::TimeNs now_ns) noexcept;
  [[nodiscard]] bool over_quota(std::uint32_t account, std::uint64_t extent_bytes) const noexcept;
  // How many bytes one put may evict.
  [[nodiscard]] std::uint64_t eviction_budget(std::uint64_t extent_bytes) const noexcept;
  [[nodiscard]] bool drop_replaced(const WriteRequest& request, base::TimeNs now_ns) noexcept;
  // Starts to make one hole of at least `bytes` by moving objects that nobody uses; false when that
  // would cost more than `bytes` of copying, or they fit nowhere else. There is no job.
  [[nodiscard]] bool begin_moves(std::uint64_t bytes) noexcept;
  // The same, where those go that could leave instead of the next victim; the others are moved.
  [[nodiscard]] bool begin_clearing(const Need& need, base::TimeNs now_ns) noexcept;
  // How many times as much as the next victim's worth may be that of those who make way for an
  // object of this length. 0: nobody makes way, the next victim goes. In a store that is about as
  // full as it can be nobody goes out of turn: that costs hits. Only when more memory than usual
  // lies idle in short holes, the more of it the dearer, or for an object as long as many others.
  [[nodiscard]] std::uint32_t times_worth(std::uint64_t extent_bytes) const noexcept;
  template <typename WayOutOf>
  [[nodiscard]] bool begin_job(const HoleWindow& window, const WayOutOf& way_out_of) noexcept;
  // A part of the job, or the rest of it.
  void continue_moves(base::TimeNs now_ns) noexcept;
  // An object that is in the way, with others of its group; returns how many went.
  std::uint32_t evict_for_job(std::uint32_t record, base::TimeNs now_ns) noexcept;
  // Whatever can be elsewhere is, when all is done.
  void end_moves(bool done) noexcept;
  // Of one extent, which was pinned for it: it has its new place (unless kNone) or stays.
  void end_move(std::uint32_t block, std::uint32_t place, bool done) noexcept;

  // Ground for an object as long as thousands of others (store_ground.cpp).
  struct Neighbour {
    enum class What : std::uint8_t { none, hole, move, evict };
    std::uint32_t block = kNone;
    What what = What::none;
    std::uint64_t cost = ~std::uint64_t{0};  // in bytes; copying one is twice evicting one
  };
  [[nodiscard]] bool needs_ground(std::uint64_t extent_bytes,
                                  std::uint64_t evicted_bytes) const noexcept;
  // Begins or goes on. False: it is not possible, or not until something else goes.
  [[nodiscard]] bool ask_for_ground(const WriteRequest& request, const Need& need,
                                    std::uint64_t evicted_bytes, base::TimeNs now_ns) noexcept;
  void begin_ground(const WriteRequest& request, const Need& need) noexcept;
  void end_ground() noexcept;
  // An extent for this put, when its ground is ready; kNone: it is not.
  [[nodiscard]] std::uint32_t take_ground(const WriteRequest& request) noexcept;
  [[nodiscard]] bool ground_is_ready() const noexcept {
    return ground_.active() && extents_.block(ground_.block).bytes >= ground_.need.extent_bytes;
  }
  // A bounded step; false: nothing changed.
  [[nodiscard]] bool grow_ground(base::TimeNs now_ns) noexcept;
  int tend_ground(base::TimeNs now_ns) noexcept;
  [[nodiscard]] Neighbour neighbour(std::uint32_t block, const GroupBook::Victim& victim,
                                    std::uint32_t times, base::TimeNs now_ns) const noexcept;
  // A record in the way (unless kNone), or the next victim; returns how many went.
  std::uint32_t evict_for_ground(const GroupBook::Victim& victim, std::uint32_t record,
                                 base::TimeNs now_ns) noexcept;
  std::uint32_t move_from_ground(std::uint32_t record, const GroupBook::Victim& victim,
                                 base::TimeNs now_ns) noexcept;
  // Goes on with the copy; false: it is not done yet.
  [[nodiscard]] bool copy_from_ground(std::uint64_t& copies_left) noexcept;
  void end_ground_move(bool done) noexcept;
  [[nodiscard]] GroupBook::Victim victim_of(const Need& need, base::TimeNs now_ns) const noexcept;
  // In use, but of no record.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    return job_.held_bytes() + (ground_.active() ? extents_.block(ground_.block).bytes : 0) +
           (ground_.place != kNone ? extents_.block(ground_.place).bytes : 0);
  }
  // The hand: behind which object clearing goes on. An object that got a hole of its own is passed,
  // and so is who is put behind it: so long objects come to lie side by side.
  void note_place(std::uint32_t record) noexcept;
  void set_hand(std::uint32_t record) noexcept;
  // kNone: at the beginning of the arena.
  [[nodiscard]] std::uint32_t block_at_hand() const noexcept;
  // Moves the hand from this block on, to an extent beside a hole that can be evicted, or as far as
  // a search may go; returns where it stands.
  template <typename WayOutOf>
  [[nodiscard]] std::uint32_t sweep(std::uint32_t block, const WayOutOf& way_out_of) noexcept;
  void rename_extent(Record& record, std::uint32_t block) noexcept;
  // With what the job will give back.
  [[nodiscard]] std::uint64_t free_soon() const noexcept {
    return extents_.free_bytes() + job_.free_soon_bytes();
  }
  [[nodiscard]] std::uint64_t free_records() const noexcept {
    return records_.capacity() - records_.used();
  }
  // Sees to the stocks of bytes and records, and to the stock of one tenant near its quota; returns
  // how many went.
  int evict_in_background(base::TimeNs now_ns) noexcept;
  // Whether something should go for a stock, and of what it is.
  [[nodiscard]] bool stock_wants(Scarce& scarce) noexcept;
  // Evicts some members of a group, `first` (unless kNone) before the others; returns how many.
  std::uint32_t evict_from(std::uint32_t group, bool breaks_lease, base::TimeNs now_ns,
                           std::uint32_t first = kNone) noexcept;
  void count_eviction(const Record& record) noexcept;
  void count_lease_loss(const Record& record, LeaseLoss cause, base::TimeNs now_ns) noexcept;
  // A pin of a live record, and its end; true: nobody pins it any more.
  void add_pin(Record& record) noexcept;
  [[nodiscard]] bool end_pin(Record& record) noexcept;
  // An object that is visible now, or is not any more.
  void count_in(const Record& record) noexcept;
  void count_out(const Record& record) noexcept;
  [[nodiscard]] const char* audit_tallies() const noexcept;
  // `extent_bytes`: of all records.
  [[nodiscard]] const char* audit_accounts(std::uint64_t extent_bytes) const noexcept;
  // Live to dead or, without pins, to nothing. The index entry is the caller's.
  void detach(std::uint32_t record) noexcept;
  void drop(std::uint32_t record) noexcept;  // detach and remove from the index
  void free_record(std::uint32_t record) noexcept;

  const StoreConfig config_;
  const std::span<std::byte> arena_;
  const ReservedMemory memory_;
  MetaTable meta_;
  Table<Record> records_;
  Table<LongKey> long_keys_;
  HashIndex index_;
  ExtentAllocator extents_;
  Compaction job_;
  Ground ground_;
  std::uint32_t hand_ = kNone;     // a record, if it still is
  std::uint64_t hand_offset_ = 0;  // where it was then
  GroupBook groups_;
  ExpiryWheel<Record, &Record::ttl> ttl_wheel_;
  StoreStats counts_;
  std::uint64_t fixed_bytes_ = 0;  // extents that may not move now: not live, or pinned
  std::uint64_t generation_ = 0;
  const Stock byte_stock_;
  const Stock record_stock_;
  bool evicting_bytes_ = false;  // the stock was below low, and is not at high
  bool evicting_records_ = false;
  std::uint32_t crowded_ = kNone;                   // account whose own stock was seen to last
  const base::SlotOwnership* ownership_ = nullptr;  // set while a sweep for lost slots is under way
  std::uint32_t sweep_next_ = 0;                    // the record that it looks at next
};

}  // namespace simm::store
