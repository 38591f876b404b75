#include "daemon/server/store_counters.h"

namespace simm::server {
namespace {

using store::StoreStats;

struct StoreNumber {
  std::string_view name;
  std::uint64_t StoreStats::*field;
  base::Metric metric;
};

constexpr StoreNumber kStoreNumbers[] = {
    {"arena_bytes",
     &StoreStats::arena_bytes,
     {"simm_store_capacity_bytes", "Memory of a shard for objects."}},
    {"extent_bytes",
     &StoreStats::extent_bytes,
     {"simm_store_used_bytes",
      "Memory in use, for objects that are there, being written, or gone but still being read."}},
    {"free_bytes", &StoreStats::free_bytes, {"simm_store_free_bytes", "Memory not in use."}},
    {"payload_bytes",
     &StoreStats::payload_bytes,
     {"simm_store_payload_bytes", "Bytes of the objects that are there."}},
    {"leased_bytes",
     &StoreStats::leased_bytes,
     {"simm_store_leased_bytes", "Memory of groups under a lease."}},
    {"pinned_bytes",
     &StoreStats::pinned_bytes,
     {"simm_store_pinned_bytes", "Memory of pinned groups."}},
    {"pinned_groups", &StoreStats::pinned_groups, {"simm_store_pinned_groups", "Pinned groups."}},
    {"objects", &StoreStats::objects, {"simm_store_objects", "Objects that are there."}},
    {"groups",
     &StoreStats::groups,
     {"simm_store_groups", "Groups of objects that live and leave together."}},
    {"reserved",
     &StoreStats::reserved,
     {"simm_store_reserved_objects", "Objects that are being written."}},
    {"lingering",
     &StoreStats::lingering,
     {"simm_store_lingering_objects", "Objects that are gone but still being read."}},
    {"reads",
     &StoreStats::reads,
     {"simm_store_lookups_total", "Look-ups of a shard.", "op=get,result=hit"}},
    {"read_misses",
     &StoreStats::read_misses,
     {"simm_store_lookups_total", "", "op=get,result=miss"}},
    {"exists_hits",
     &StoreStats::exists_hits,
     {"simm_store_lookups_total", "", "op=exists,result=hit"}},
    {"exists_misses",
     &StoreStats::exists_misses,
     {"simm_store_lookups_total", "", "op=exists,result=miss"}},
    {"published",
     &StoreStats::published,
     {"simm_store_published_total", "Objects that became visible."}},
    {"replacements",
     &StoreStats::replacements,
     {"simm_store_replacements_total", "Of those, objects that took the place of an older one."}},
    {"already_present",
     &StoreStats::already_present,
     {"simm_store_already_present_total", "Puts that found their object there."}},
    {"abandoned", &StoreStats::abandoned, {"simm_store_abandoned_total", "Reservations given up."}},
    {"removed", &StoreStats::removed, {"simm_store_removed_total", "Objects removed by clients."}},
    {"expired",
     &StoreStats::expired,
     {"simm_store_expired_total", "Objects whose time to live was over."}},
    {"evicted",
     &StoreStats::evicted,
     {"simm_store_evicted_total", "Objects evicted to make room."}},
    {"evicted_bytes",
     &StoreStats::evicted_bytes,
     {"simm_store_evicted_bytes_total", "Memory of those."}},
    {"evicted_for_quota",
     &StoreStats::evicted_for_quota,
     {"simm_store_evicted_for_quota_total",
      "Of the evicted objects, those that left for the quota of their tenant."}},
    {"evicted_inline",
     &StoreStats::evicted_inline,
     {"simm_store_evicted_inline_total",
      "Of the evicted objects, those that left inside a put because there was not enough in stock; "
      "the others left in the background."}},
    {"moved",
     &StoreStats::moved,
     {"simm_store_moved_total", "Objects moved in the arena, to make one hole of several."}},
    {"moved_bytes",
     &StoreStats::moved_bytes,
     {"simm_store_moved_bytes_total", "Bytes copied for that."}},
    {"disowned",
     &StoreStats::disowned,
     {"simm_store_disowned_total",
      "Objects dropped because a map gave their slot to another daemon."}},
    {"quarantined",
     &StoreStats::quarantined,
     {"simm_store_quarantined_total", "Objects dropped because their bytes were damaged."}},
    {"damaged_records",
     &StoreStats::damaged_records,
     {"simm_store_damaged_records_total", "Of those, objects whose record was damaged."}},
    {"space_waits",
     &StoreStats::space_waits,
     {"simm_store_space_waits_total",
      "Reservations that had to be asked for again because eviction was under way."}},
    {"refused_no_space",
     &StoreStats::refused_no_space,
     {"simm_store_refused_no_space_total",
      "Reservations refused for their size, their quota, or what they had evicted."}},
    {"pins_refused",
     &StoreStats::pins_refused,
     {"simm_store_pins_refused_total", "Pins refused because their budget was used up."}},
    {"pins_outgrown",
     &StoreStats::pins_outgrown,
     {"simm_store_pins_outgrown_total",
      "Pins that ended because their group grew beyond the budget."}},
    {"refused_tenants",
     &StoreStats::refused_tenants,
     {"simm_store_refused_tenants_total",
      "Reservations refused because there are too many tenants."}},
    {"unverified",
     &StoreStats::unverified,
     {"simm_store_unverified_objects",
      "Objects of an earlier life of the daemon that nobody has read or checked since."}},
    {"recovered",
     &StoreStats::recovered,
     {"simm_store_recovered_total", "Objects that came back when the daemon did."}},
    {"refused_tables",
     &StoreStats::refused_tables,
     {"simm_store_refused_tables_total",
      "Kept metadata tables of another shape, or damaged as a whole: the shard began empty."}},
    {"holes", &StoreStats::holes, {"simm_store_holes", "Free parts of the arena."}},
    {"largest_hole_bytes",
     &StoreStats::largest_hole_bytes,
     {"simm_store_largest_hole_bytes", "The largest of them; at most 3 % too small."}},
    {"movable_bytes",
     &StoreStats::movable_bytes,
     {"simm_store_movable_bytes",
      "Memory of objects that could be elsewhere: nobody reads or writes them at this moment."}},
};

template <typename Counters, typename Values>
void publish_all(const Values& values, Counters& counters) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) counters[i].set(values[i]);
}

}  // namespace

StoreCounters::StoreCounters(base::CounterSet& set, std::string_view prefix)
    : CounterGroup(set, prefix, "agent") {
  static_assert(std::size(kStoreNumbers) == kNumbers);
  for (std::size_t i = 0; i < kNumbers; ++i) {
    numbers_[i] = counter(kStoreNumbers[i].name, kStoreNumbers[i].metric);
  }
}

void StoreCounters::publish(const StoreStats& stats) noexcept {
  for (std::size_t i = 0; i < kNumbers; ++i) numbers_[i].set(stats.*kStoreNumbers[i].field);
  publish_all(stats.lost_in_lease, lost_in_lease_);
  publish_all(stats.lost_at_recovery, lost_at_recovery_);
  publish_all(stats.spectrum.objects, objects_by_length_);
  publish_all(stats.spectrum.bytes, bytes_by_length_);
  publish_all(stats.spectrum.evicted_by_age, evicted_by_age_);
  publish_all(stats.spectrum.evicted_by_uses, evicted_by_uses_);
  publish_all(stats.spectrum.reused_by_age, reused_by_age_);
}

}  // namespace simm::server
