#include "daemon/cluster/copied_coordinator.h"

#include <utility>

#include "daemon/cluster/cluster_codec.h"

namespace simm::cluster {
namespace {

// A copy that is of another cluster would be written over.
Outcome check_life(const StoredState& state, const StoredState& copy) {
  const auto first = decode_manager_state(state.bytes);
  const auto kept = decode_manager_state(copy.bytes);
  if (!first || !kept || first->map == nullptr || kept->map == nullptr) return Done{};
  const Lineage& there = first->map->life().lineage;
  const Lineage& here = kept->map->life().lineage;
  const bool is_other = first->map->is_of_another_life(here, copy.epoch) &&
                        kept->map->is_of_another_life(there, state.epoch);
  if (!is_other) return Done{};
  return Error{Status::incompatible,
               "manager.state_file is of lineage " + here.text() + ", etcd's state of " +
                   there.text() +
                   ": two clusters: write another cluster.name, or move that file away"};
}

}  // namespace

CopiedCoordinator::CopiedCoordinator(Coordinator& first, Coordinator& copy,
                                     std::function<void(const Error&)> on_failure)
    : first_(first), copy_(copy), on_failure_(std::move(on_failure)) {}

Expected<std::optional<StoredState>> CopiedCoordinator::load() {
  auto loaded = first_.load();
  if (!loaded) return loaded;
  auto kept = copy_.load();
  if (loaded->has_value()) {
    if (kept && kept->has_value()) {
      if (Outcome same = check_life(**loaded, **kept); !same) return std::move(same).error();
    }
    return loaded;
  }
  if (!kept || !kept->has_value()) return kept;
  if (Outcome stored = first_.store(0, **kept); !stored) return std::move(stored).error();
  return kept;
}

Outcome CopiedCoordinator::store(base::Epoch expected, const StoredState& state) {
  if (Outcome stored = first_.store(expected, state); !stored) return stored;
  const auto kept = copy_.load();
  // Another manager may have led for long: what this one has is old, and is replaced.
  const base::Epoch there = kept && kept->has_value() ? kept->value().epoch : 0;
  Outcome copied = kept ? copy_.store(there, state) : Outcome(kept.error());
  if (!copied) on_failure_(copied.error());
  return Done{};
}

}  // namespace simm::cluster
