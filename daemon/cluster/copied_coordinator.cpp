#include "daemon/cluster/copied_coordinator.h"

#include <utility>

namespace simm::cluster {

CopiedCoordinator::CopiedCoordinator(Coordinator& first, Coordinator& copy,
                                     std::function<void(const Error&)> on_failure)
    : first_(first), copy_(copy), on_failure_(std::move(on_failure)) {}

Expected<std::optional<StoredState>> CopiedCoordinator::load() {
  auto loaded = first_.load();
  if (!loaded || loaded->has_value()) return loaded;
  auto kept = copy_.load();
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
