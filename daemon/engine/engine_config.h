// The tunables of an engine, in one place.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "ipc/layout.h"

namespace simm::engine {

struct EngineConfig {
  std::uint32_t operations = 1024;  // batches in flight; each costs memory only where it is used
  // Messages in flight or waiting for credit. One for each operation is kept for its first
  // message, as far as half of them go: many messages of some operations keep none of the others
  // waiting.
  std::uint32_t requests = 4096;
  // Of those, so many are kept for fetches: what waits for a shared read must not stand in its way.
  std::uint32_t fetches = 0;
  // Of the operations, so many are kept for writes of replicas: as many as may write. 0: no objects
  // are kept twice.
  std::uint32_t replicas = 0;
  // Cap of one message. An owner gets its part of a batch in as few messages as it fits in.
  std::uint32_t pages_per_request_max = ipc::kPagesPerSubmissionMax;
  // And of its keys: long ones make several messages, so that requests of others come between.
  std::uint32_t key_bytes_per_request_max = 128 * 1024;
  // Of the keys of a batch, so many bytes are hashed at once. The rest waits for turns of its own,
  // and in a turn one such rest is hashed, so that nobody waits for a megabyte of somebody's names.
  std::uint32_t key_bytes_hashed_max = 128 * 1024;
  // Of the look-ups that a tenant has out on one route: what is on its way passes nobody. One
  // message is always allowed.
  std::uint32_t lookup_key_bytes_max = 256 * 1024;

  // The fence budget: how long before its deadline an operation gives up and starts to fence.
  // A share of the time it was given, within bounds, and never more than half of that time.
  std::uint32_t fence_budget_percent = 20;
  base::TimeNs fence_budget_min_ns = 10 * base::kNsPerMs;
  base::TimeNs fence_budget_max_ns = 200 * base::kNsPerMs;
  // After its deadline an operation may take this long to be fenced; more is counted as a fault.
  base::TimeNs fence_grace_ns = 100 * base::kNsPerMs;

  std::uint32_t posts_per_turn = 64;  // of requests that had to wait
  std::uint32_t stages_one_in = 64;   // batch of so many is timed: to read the clock is dear

  // An owner that has another map than we have is asked again after this pause, or at once when a
  // new map comes. A read that has waited so long for maps is a miss; a write waits until it gives
  // up.
  base::TimeNs map_pause_ns = 2 * base::kNsPerMs;
  base::TimeNs read_map_wait_ns = 100 * base::kNsPerMs;
};

}  // namespace simm::engine
