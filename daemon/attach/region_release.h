// RegionRelease: frees regions of a session where unmapping may take its time, in pieces of which
// each is a job of its own. So whatever else waits for that thread waits for one piece: the opens
// of other sessions of the tenant, and the jobs of other tenants.
// Owned by its jobs. Thread: start() from control; the rest on the thread of the jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/control/job_thread.h"
#include "daemon/memory/region_memory.h"

namespace simm::control {

// What one piece unmaps: less than twice as much. An unmapping of 1 GiB of small pages that are all
// there takes some 0.1 s.
inline constexpr std::uint64_t kReleasePieceBytes = 1073741824;

class RegionRelease final : public std::enable_shared_from_this<RegionRelease> {
public:
  using Regions = std::vector<std::unique_ptr<memory::RegionMemory>>;

  // `when_gone` is called behind the last piece, on that thread.
  static void start(JobThread& thread, std::uint64_t tenant, Regions regions,
                    std::function<void()> when_gone);

  RegionRelease(JobThread& thread, std::uint64_t tenant, Regions regions,
                std::function<void()> when_gone)
      : thread_(thread),
        tenant_(tenant),
        regions_(std::move(regions)),
        when_gone_(std::move(when_gone)) {}

private:
  void submit();
  void step();
  // True: nothing is left.
  [[nodiscard]] bool free_piece();

  JobThread& thread_;
  const std::uint64_t tenant_;
  Regions regions_;
  std::function<void()> when_gone_;
};

}  // namespace simm::control
