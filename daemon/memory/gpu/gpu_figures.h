// GpuFigures: what one GPU has done for clients, and what went wrong there. GpuView: the same at
// one moment, with what its helper is doing, for people who look after the daemon.
// Thread: written by the adopter and by data agents, read by any.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/memory/gpu/gpu_protocol.h"

namespace simm::memory {

enum class GpuState : std::uint8_t {
  running,
  restarting,  // the helper is dead, and another one takes its place
  hung,        // it lives and gives no sign of that: it will be killed
  off,         // too many helpers died: the GPU stays away until a restart comes back
};
constexpr std::string_view gpu_state_name(GpuState state) noexcept {
  constexpr std::string_view kNames[] = {"running", "restarting", "hung", "off"};
  return kNames[static_cast<std::size_t>(state)];
}

struct GpuFigures {
  using Number = std::atomic<std::uint64_t>;
  Number regions{0};  // memory of clients that its helpers map, or will again
  Number mapped_bytes{0};
  // Pieces that were copied: out of the GPU (puts), and into it (gets).
  Number copies_out{0};
  Number bytes_out{0};
  Number copies_in{0};
  Number bytes_in{0};
  // Those that were not: the memory was not there, or the helper had died.
  Number failed{0};
  Number lost{0};
  // Times that a piece had to wait: its tenant had its share of slots, or all slots were in use.
  Number share_waits{0};
  Number full_waits{0};
  // Pieces that the tier of another GPU had, and that came from the host all the same: no access.
  Number host_hits{0};
  Number host_hit_bytes{0};
};

struct GpuView {
  GpuUuid uuid{};
  std::string model;  // as the driver names it
  pid_t helper = -1;  // -1: none lives
  GpuState state = GpuState::off;
  std::uint64_t regions = 0;
  std::uint64_t mapped_bytes = 0;
  std::uint64_t copies_out = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t copies_in = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t failed = 0;
  std::uint64_t lost = 0;
  std::uint64_t share_waits = 0;
  std::uint64_t full_waits = 0;
  std::uint64_t restarts = 0;
  std::uint64_t leases = 0;
  std::uint64_t lent_bytes = 0;
  // Of the tier (gpu_protocol.h, GpuTierCounts).
  std::uint64_t tier_bytes_max = 0;  // what is lent included
  std::uint64_t tier_bytes = 0;
  std::uint64_t tier_used_bytes = 0;
  std::uint64_t tier_pieces = 0;
  std::uint64_t tier_hits = 0;
  std::uint64_t tier_hit_bytes = 0;
  std::uint64_t tier_peer_hits = 0;
  std::uint64_t tier_peer_hit_bytes = 0;
  std::uint64_t tier_host_hits = 0;
  std::uint64_t tier_host_hit_bytes = 0;
  std::uint64_t tier_admitted = 0;
  std::uint64_t tier_evicted = 0;
  std::uint64_t tier_refused = 0;
  std::uint64_t tier_revoked_bytes = 0;
  std::uint64_t tier_revoke_ns = 0;
  std::uint64_t tier_revoke_max_ns = 0;
  std::string last_error;  // of its helpers
};

}  // namespace simm::memory
