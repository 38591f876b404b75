// What is counted of memory of GPUs: of each GPU what it did, and why memory was refused.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "daemon/base/counter_group.h"
#include "daemon/memory/gpu/gpu_figures.h"

namespace simm::memory {

// Why a region of kind gpu was refused.
enum class GpuRefusal : std::uint8_t {
  off,     // gpu.enabled is off
  no_gpu,  // the host has no such GPU, or its driver does not start
  memory,  // the descriptor is not of memory of that GPU, or not of so much
  room,    // a limit, or the GPU's address space
  helper,  // the helper of the GPU died of it, or was dead
};
inline constexpr std::array<std::string_view, 5> kGpuRefusalNames = {"off", "no_gpu", "memory",
                                                                     "room", "helper"};

// Thread: made at set-up; the adopter's.
struct GpuRefusedCounters : base::CounterGroup {
  GpuRefusedCounters() = default;  // counts into unread cells
  explicit GpuRefusedCounters(base::CounterSet& set) : CounterGroup(set, "gpu") {}

  std::array<base::Counter, kGpuRefusalNames.size()> refused = counters(
      "refused.", kGpuRefusalNames, "reason",
      {"simm_gpu_refused_total", "Regions in memory of a GPU that were refused, by reason."});

  void add(GpuRefusal reason) noexcept { refused[static_cast<std::size_t>(reason)].add(); }
};

// Thread: control, which brings the figures here.
struct GpuCounters : base::CounterGroup {
  GpuCounters(base::CounterSet& set, std::size_t gpu)
      : CounterGroup(set, base::numbered("gpu", gpu), "gpu") {}

  base::Counter is_running = counter(
      "is_running", {"simm_gpu_helper_running", "1 while the helper of the GPU works, else 0."});
  base::Counter restarts = counter(
      "restarts", {"simm_gpu_helper_restarts_total", "Helpers of the GPU that were replaced."});
  base::Counter regions =
      counter("regions", {"simm_gpu_regions", "Regions of clients in memory of the GPU."});
  base::Counter mapped_bytes = counter(
      "mapped_bytes",
      {"simm_gpu_mapped_bytes", "Memory of clients that the helper maps, whole allocations."});
  base::Counter copies_out =
      counter("copies_out", {"simm_gpu_copies_total",
                             "Pieces that were copied out of a GPU (puts) or into "
                             "it (gets).",
                             "direction=out"});
  base::Counter copies_in = counter("copies_in", {"simm_gpu_copies_total", {}, "direction=in"});
  base::Counter bytes_out = counter(
      "bytes_out", {"simm_gpu_copied_bytes_total", "Bytes of those pieces.", "direction=out"});
  base::Counter bytes_in = counter("bytes_in", {"simm_gpu_copied_bytes_total", {}, "direction=in"});
  base::Counter failed = counter("failed", {"simm_gpu_copy_failures_total",
                                            "Pieces that were not copied: refused by "
                                            "the helper, or under way at its death.",
                                            "cause=refused"});
  base::Counter lost = counter("lost", {"simm_gpu_copy_failures_total", {}, "cause=helper_died"});
  base::Counter share_waits =
      counter("share_waits",
              {"simm_gpu_slot_waits_total",
               "Times that a piece had to wait for a slot of the helper: its tenant had its share, "
               "or all were in use.",
               "cause=share"});
  base::Counter full_waits = counter("full_waits", {"simm_gpu_slot_waits_total", {}, "cause=full"});
  base::Counter leases = counter(
      "leases", {"simm_gpu_leases", "Leases of memory of the GPU, by which clients lend it."});
  base::Counter lent_bytes = counter(
      "lent_bytes", {"simm_gpu_lent_bytes", "Memory of the GPU that its tier may have by those."});
  base::Counter tier_bytes =
      counter("tier_bytes", {"simm_gpu_tier_bytes", "Memory of the GPU that its tier has."});
  base::Counter tier_used_bytes = counter(
      "tier_used_bytes", {"simm_gpu_tier_used_bytes", "Of that, bytes of copies of objects."});
  base::Counter tier_hits =
      counter("tier_hits", {"simm_gpu_tier_hits_total",
                            "Pieces of gets that were copied within the GPU, out of its tier."});
  base::Counter tier_hit_bytes =
      counter("tier_hit_bytes", {"simm_gpu_tier_hit_bytes_total",
                                 "Bytes of those, which did not cross the bus of the host."});
  base::Counter tier_peer_hits = counter(
      "tier_peer_hits",
      {"simm_gpu_tier_other_hits_total",
       "Pieces for memory of one GPU that the tier of another one had. peer: that one, which is "
       "named here, pushed them. host: they came from the host, without access between the two.",
       "path=peer"});
  base::Counter tier_host_hits =
      counter("tier_host_hits", {"simm_gpu_tier_other_hits_total", {}, "path=host"});
  base::Counter tier_peer_hit_bytes =
      counter("tier_peer_hit_bytes",
              {"simm_gpu_tier_other_hit_bytes_total", "Bytes of those pieces.", "path=peer"});
  base::Counter tier_host_hit_bytes =
      counter("tier_host_hit_bytes", {"simm_gpu_tier_other_hit_bytes_total", {}, "path=host"});
  base::Counter tier_admitted = counter(
      "tier_admitted", {"simm_gpu_tier_admitted_total", "Pieces that the tier took a copy of."});
  base::Counter tier_evicted =
      counter("tier_evicted",
              {"simm_gpu_tier_evicted_total", "Copies in the tier that made way for others."});
  base::Counter tier_refused =
      counter("tier_refused",
              {"simm_gpu_tier_refused_total",
               "Times that the GPU had no memory to spare for its tier, which stays smaller."});
  base::Counter tier_revoked_bytes =
      counter("tier_revoked_bytes",
              {"simm_gpu_tier_revoked_bytes_total", "Memory of the GPU that its tier gave back."});
  base::Counter tier_revoke_ns =
      counter("tier_revoke_ns", {"simm_gpu_tier_revoke_seconds",
                                 "How long the tier took the last time that it gave memory back."});

  void show(const GpuView& view) noexcept {
    is_running.set(view.state == GpuState::running ? 1 : 0);
    restarts.set(view.restarts);
    regions.set(view.regions);
    mapped_bytes.set(view.mapped_bytes);
    copies_out.set(view.copies_out);
    copies_in.set(view.copies_in);
    bytes_out.set(view.bytes_out);
    bytes_in.set(view.bytes_in);
    failed.set(view.failed);
    lost.set(view.lost);
    share_waits.set(view.share_waits);
    full_waits.set(view.full_waits);
    leases.set(view.leases);
    lent_bytes.set(view.lent_bytes);
    tier_bytes.set(view.tier_bytes);
    tier_used_bytes.set(view.tier_used_bytes);
    tier_hits.set(view.tier_hits);
    tier_hit_bytes.set(view.tier_hit_bytes);
    tier_peer_hits.set(view.tier_peer_hits);
    tier_peer_hit_bytes.set(view.tier_peer_hit_bytes);
    tier_host_hits.set(view.tier_host_hits);
    tier_host_hit_bytes.set(view.tier_host_hit_bytes);
    tier_admitted.set(view.tier_admitted);
    tier_evicted.set(view.tier_evicted);
    tier_refused.set(view.tier_refused);
    tier_revoked_bytes.set(view.tier_revoked_bytes);
    tier_revoke_ns.set(view.tier_revoke_ns);
  }
};

// Of all GPUs, by number: each gets its counters when it is seen first.
class GpuNumbers {
public:
  explicit GpuNumbers(base::CounterSet& set) noexcept : set_(set) {}

  void show(const std::vector<GpuView>& views) {
    while (gpus_.size() < views.size()) gpus_.emplace_back(set_.begin_writer(), gpus_.size());
    for (std::size_t i = 0; i < views.size(); ++i) gpus_[i].show(views[i]);
  }

private:
  base::CounterSet& set_;
  std::vector<GpuCounters> gpus_;
};

}  // namespace simm::memory
