// Load: what a daemon has done since its start, summed over its data agents: the figures of
// `simmctl top`. simmctl makes it out of counters, or gets it from the manager, which has it from
// heartbeats. kLoadFields names the counters, and its order is the format of heartbeats: a new
// field is appended, and none is ever taken away.
// Thread: any, pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/base/agent_counter.h"
#include "daemon/base/histogram.h"

namespace simm::base {

struct Load {
  static constexpr std::size_t kBuckets = Histogram::kBuckets;

  // Asked by this daemon's clients.
  std::uint64_t batches = 0;
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t unreachable = 0;
  std::uint64_t hit_pages = 0;
  std::uint64_t missed_pages = 0;  // to get, for whatever reason
  std::uint64_t got_bytes = 0;
  std::uint64_t stored_bytes = 0;
  // Served by its part of the pool, to whomever.
  std::uint64_t get_pages = 0;
  std::uint64_t get_bytes = 0;
  std::uint64_t get_misses = 0;
  std::uint64_t exists_hits = 0;
  std::uint64_t exists_misses = 0;
  std::uint64_t put_pages = 0;
  std::uint64_t put_bytes = 0;
  std::uint64_t evicted = 0;
  std::uint64_t lost_in_lease = 0;
  // From and to other daemons, by TCP and by its own NICs.
  std::uint64_t tcp_in_bytes = 0;
  std::uint64_t tcp_out_bytes = 0;
  std::uint64_t rdma_in_bytes = 0;
  std::uint64_t rdma_out_bytes = 0;
  // As it is now.
  std::uint64_t sessions = 0;
  std::uint64_t objects = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t leased_bytes = 0;

  std::array<std::uint64_t, kBuckets> batch_ns{};  // batches by log2 of their time

  bool operator==(const Load&) const = default;
};

struct LoadField {
  std::string_view section;
  std::string_view name;  // "x.": the sum of all that begin so and have no field of their own
  std::uint64_t Load::*sum;
};
inline constexpr std::array kLoadFields = {
    LoadField{"session", "attached", &Load::sessions},
    LoadField{"engine", "batches", &Load::batches},
    LoadField{"engine", "pages", &Load::pages},
    LoadField{"engine", "bytes_moved", &Load::bytes},
    LoadField{"engine", "timeouts", &Load::timeouts},
    LoadField{"engine", "unreachable", &Load::unreachable},
    LoadField{"engine", "op.get.pages.ok", &Load::hit_pages},
    LoadField{"engine", "op.get.pages.", &Load::missed_pages},
    LoadField{"engine", "op.get.bytes", &Load::got_bytes},
    LoadField{"engine", "op.put.bytes", &Load::stored_bytes},
    LoadField{"server", "get_pages", &Load::get_pages},
    LoadField{"server", "get_bytes", &Load::get_bytes},
    LoadField{"server", "misses", &Load::get_misses},
    LoadField{"server", "put_pages", &Load::put_pages},
    LoadField{"server", "put_bytes", &Load::put_bytes},
    LoadField{"store", "exists_hits", &Load::exists_hits},
    LoadField{"store", "exists_misses", &Load::exists_misses},
    LoadField{"store", "evicted", &Load::evicted},
    LoadField{"store", "objects", &Load::objects},
    LoadField{"store", "extent_bytes", &Load::used_bytes},
    LoadField{"store", "arena_bytes", &Load::arena_bytes},
    LoadField{"store", "leased_bytes", &Load::leased_bytes},
    LoadField{"store", "lost_in_lease.", &Load::lost_in_lease},
    LoadField{"tcp", "received_bytes", &Load::tcp_in_bytes},
    LoadField{"tcp", "sent_bytes", &Load::tcp_out_bytes},
    LoadField{"rdma", "read_bytes", &Load::rdma_in_bytes},
    LoadField{"rdma", "written_bytes", &Load::rdma_out_bytes},
};

inline constexpr std::string_view kBatchBucket = "complete_ns.log2_";  // of the section engine

// visit(cell) with the cell of `load` that the counter of this name adds to, if it adds to one.
template <typename Visit>
void with_load_cell(Load& load, std::string_view counter_name, Visit&& visit) {
  const auto counter = agent_counter(counter_name);
  if (!counter) return;
  for (const LoadField& field : kLoadFields) {
    if (counter->section != field.section) continue;
    const bool is_sum = field.name.ends_with('.');
    if (is_sum ? !counter->name.starts_with(field.name) : counter->name != field.name) continue;
    visit(load.*field.sum);
    return;
  }
  if (counter->section != "engine" || !counter->name.starts_with(kBatchBucket)) return;
  const std::string_view digits = counter->name.substr(kBatchBucket.size());
  std::size_t bucket = Load::kBuckets;
  std::from_chars(digits.data(), digits.data() + digits.size(), bucket);
  if (bucket < Load::kBuckets) visit(load.batch_ns[bucket]);
}

}  // namespace simm::base
