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
