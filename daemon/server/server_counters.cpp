#include "daemon/server/server_counters.h"

#include <string>

namespace simm::server {

ServerCounters::ServerCounters(base::CounterSet& set, std::string_view prefix) {
  set.begin_writer();
  const std::string name(prefix);
  requests = set.counter(name + ".requests");
  refused_requests = set.counter(name + ".refused_requests");
  invalid_pages = set.counter(name + ".invalid_pages");
  wrong_epoch = set.counter(name + ".wrong_epoch");
  recovering_pages = set.counter(name + ".recovering_pages");
  get_pages = set.counter(name + ".get_pages");
  get_bytes = set.counter(name + ".get_bytes");
  put_pages = set.counter(name + ".put_pages");
  put_bytes = set.counter(name + ".put_bytes");
  misses = set.counter(name + ".misses");
  size_mismatches = set.counter(name + ".size_mismatches");
  verified = set.counter(name + ".verified");
  corrupt = set.counter(name + ".corrupt");
  failed_moves = set.counter(name + ".failed_moves");
  cancels = set.counter(name + ".cancels");
  cancelled_pages = set.counter(name + ".cancelled_pages");
  aborts = set.counter(name + ".aborts");
  timeouts = set.counter(name + ".timeouts");
  space_waits = set.counter(name + ".space_waits");
  no_space = set.counter(name + ".no_space");
}

namespace {

struct StoreNumber {
  const char* name;
  std::uint64_t (*read)(const store::StoreStats&);
};

#define SIMM_STORE_NUMBER(field)                               \
  StoreNumber {                                                \
#field, [](const store::StoreStats& s) { return s.field; } \
  }
#define SIMM_STORE_LOSS(cause)                                                   \
  StoreNumber {                                                                  \
    "lost_in_lease." #cause, [](const store::StoreStats& s) {                    \
      return s.lost_in_lease[static_cast<std::size_t>(store::LeaseLoss::cause)]; \
    }                                                                            \
  }
#define SIMM_STORE_RECOVERY(cause)                                                     \
  StoreNumber {                                                                        \
    "lost_at_recovery." #cause, [](const store::StoreStats& s) {                       \
      return s.lost_at_recovery[static_cast<std::size_t>(store::RecoveryLoss::cause)]; \
    }                                                                                  \
  }
constexpr std::array<StoreNumber, StoreCounters::kCount> kStoreNumbers = {
    SIMM_STORE_NUMBER(reads),
    SIMM_STORE_NUMBER(read_misses),
    SIMM_STORE_NUMBER(exists_hits),
    SIMM_STORE_NUMBER(exists_misses),
    SIMM_STORE_NUMBER(published),
    SIMM_STORE_NUMBER(replacements),
    SIMM_STORE_NUMBER(already_present),
    SIMM_STORE_NUMBER(abandoned),
    SIMM_STORE_NUMBER(removed),
    SIMM_STORE_NUMBER(expired),
    SIMM_STORE_NUMBER(evicted),
    SIMM_STORE_NUMBER(evicted_bytes),
    SIMM_STORE_NUMBER(evicted_for_quota),
    SIMM_STORE_NUMBER(evicted_inline),
    SIMM_STORE_NUMBER(moved),
    SIMM_STORE_NUMBER(moved_bytes),
    SIMM_STORE_NUMBER(disowned),
    SIMM_STORE_NUMBER(quarantined),
    SIMM_STORE_NUMBER(damaged_records),
    SIMM_STORE_NUMBER(space_waits),
    SIMM_STORE_NUMBER(refused_no_space),
    SIMM_STORE_NUMBER(pins_refused),
    SIMM_STORE_NUMBER(pins_outgrown),
    SIMM_STORE_NUMBER(refused_tenants),
    SIMM_STORE_LOSS(removed),
    SIMM_STORE_LOSS(replaced),
    SIMM_STORE_LOSS(lease_budget),
    SIMM_STORE_LOSS(corrupt),
    SIMM_STORE_LOSS(slot_lost),
    SIMM_STORE_NUMBER(recovered),
    SIMM_STORE_NUMBER(refused_tables),
    SIMM_STORE_RECOVERY(damaged),
    SIMM_STORE_RECOVERY(impossible),
    SIMM_STORE_RECOVERY(overlapping),
    SIMM_STORE_RECOVERY(superseded),
    SIMM_STORE_RECOVERY(expired),
    SIMM_STORE_RECOVERY(refused),
    SIMM_STORE_NUMBER(unverified),
    SIMM_STORE_NUMBER(objects),
    SIMM_STORE_NUMBER(payload_bytes),
    SIMM_STORE_NUMBER(reserved),
    SIMM_STORE_NUMBER(lingering),
    SIMM_STORE_NUMBER(groups),
    SIMM_STORE_NUMBER(arena_bytes),
    SIMM_STORE_NUMBER(extent_bytes),
    SIMM_STORE_NUMBER(free_bytes),
    SIMM_STORE_NUMBER(leased_bytes),
    SIMM_STORE_NUMBER(pinned_bytes),
    SIMM_STORE_NUMBER(pinned_groups),
    SIMM_STORE_NUMBER(holes),
    SIMM_STORE_NUMBER(largest_hole_bytes),
    SIMM_STORE_NUMBER(movable_bytes)};
#undef SIMM_STORE_NUMBER
#undef SIMM_STORE_LOSS
#undef SIMM_STORE_RECOVERY

template <typename Counters, typename Names>
void name_classes(base::CounterSet& set, const std::string& name, const Names& classes,
                  Counters& counters) {
  for (std::size_t i = 0; i < classes.size(); ++i) {
    counters[i] = set.counter(name + "." + classes[i]);
  }
}

template <typename Counters, typename Values>
void publish_classes(const Values& values, Counters& counters) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) counters[i].set(values[i]);
}

}  // namespace

StoreCounters::StoreCounters(base::CounterSet& set, std::string_view prefix) {
  const std::string name(prefix);
  for (std::size_t i = 0; i < kCount; ++i) {
    counters_[i] = set.counter(name + "." + kStoreNumbers[i].name);
  }
  name_classes(set, name + ".objects_by_length", store::kLengthClasses, objects_by_length_);
  name_classes(set, name + ".bytes_by_length", store::kLengthClasses, bytes_by_length_);
  name_classes(set, name + ".evicted_by_age", store::kAgeClasses, evicted_by_age_);
  name_classes(set, name + ".evicted_by_uses", store::kUseClasses, evicted_by_uses_);
  name_classes(set, name + ".reused_by_age", store::kReuseClasses, reused_by_age_);
}

void StoreCounters::publish(const store::StoreStats& stats) noexcept {
  for (std::size_t i = 0; i < kCount; ++i) counters_[i].set(kStoreNumbers[i].read(stats));
  publish_classes(stats.spectrum.objects, objects_by_length_);
  publish_classes(stats.spectrum.bytes, bytes_by_length_);
  publish_classes(stats.spectrum.evicted_by_age, evicted_by_age_);
  publish_classes(stats.spectrum.evicted_by_uses, evicted_by_uses_);
  publish_classes(stats.spectrum.reused_by_age, reused_by_age_);
}

}  // namespace simm::server
