// RegionRegistrar: turns a client's request into a region, and says which kind it became and why.
//
//   automatic  shared if a descriptor came along, else adopted, else foreign if that is configured,
//              else staged: each with the reason why the kinds before it were not possible
//   a kind     that one or an error; a shared one that the client had better copy is staged
//
// Nothing is mapped before its bytes are charged to the pin budgets. Adoption waits for the
// helper's answer (half a second at most), and unmapping takes its time: this is work for threads
// of its own. Thread: requests with a descriptor of a file on any; those without, those of kind
// gpu, and maintain(), on one, because only these ask a helper.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/memory/gpu/gpu_devices.h"
#include "daemon/memory/gpu_counters.h"
#include "daemon/memory/helper/adopt_client.h"
#include "daemon/memory/helper/foreign_arena.h"
#include "daemon/memory/helper/foreign_copier.h"
#include "daemon/memory/mapped_files.h"
#include "daemon/memory/pin_budget.h"
#include "daemon/memory/region_memory.h"
#include "daemon/memory/touch_budget.h"
#include "ipc/control_message.h"
#include "ipc/fd.h"
#include "ipc/peer_identity.h"
#include "simm/expected.h"

namespace simm::memory {

struct RegionPolicy {
  bool adopt = true;
  bool foreign = false;
  // Of several tenants none may hold up another one: memory whose owner can punch holes into it is
  // staged then, and memory files get the final seals. See RegionMemory::map().
  bool several_tenants = false;
};

// For whom a region is made: parts of a session, which outlive its regions.
struct RegionOwner {
  const ipc::PeerIdentity& client;
  PinBudget& pins;
  TouchBudget& touches;
  std::shared_ptr<ForeignCopier> copier;  // made with the first foreign region
  std::uint64_t tenant = 0;
  bool has_gpu_regions = false;  // or had
};

struct MadeRegion {
  std::unique_ptr<RegionMemory> memory;  // null: staged, the client copies through another region
  ipc::RegionRequestKind kind = ipc::RegionRequestKind::staged;
  std::string reason;
};

class RegionRegistrar {
public:
  // `helper`: null when there is none; `no_helper` says why then. `arena`: the pool's, for the
  // workers of foreign regions. `nics`: who tells NICs of regions that are mapped; null: there are
  // none. `gpus`: null when clients may not have memory of GPUs here.
  RegionRegistrar(const RegionPolicy& policy, AdoptClient* helper, std::string no_helper,
                  const ForeignArena& arena, RegionAttach* nics = nullptr,
                  GpuDevices* gpus = nullptr, const GpuRefusedCounters& refused = {})
      : policy_(policy),
        helper_(helper),
        no_helper_(std::move(no_helper)),
        arena_(arena),
        nics_(nics),
        gpus_(gpus),
        gpu_refused_(refused) {}

  // Takes the descriptor, closes it in the end. Errors: invalid_argument, permission_denied,
  // out_of_memory (pin budget), unsupported (gpu).
  Expected<MadeRegion> make(RegionOwner& owner, const ipc::RegisterRegion& request,
                            ipc::UniqueFd fd);

  // Brings back foreign workers that were killed at a fence, and looks after helpers of GPUs. Call
  // now and then (10 ms).
  void maintain();

private:
  Expected<MadeRegion> make_automatic(RegionOwner& owner, const ipc::RegisterRegion& request,
                                      ipc::UniqueFd fd);
  Expected<MadeRegion> make_shared(RegionOwner& owner, const ipc::RegisterRegion& request,
                                   ipc::UniqueFd fd);
  Expected<MadeRegion> make_adopted(RegionOwner& owner, const ipc::RegisterRegion& request);
  Expected<MadeRegion> make_gpu(RegionOwner& owner, const ipc::RegisterRegion& request,
                                ipc::UniqueFd fd);
  Error refuse_gpu(GpuRefusal reason, Error why);
  Expected<MadeRegion> make_foreign(RegionOwner& owner, const ipc::RegisterRegion& request);
  Expected<std::unique_ptr<RegionMemory>> map(RegionOwner& owner, ipc::UniqueFd fd,
                                              RegionMemory::Spec spec);

  const RegionPolicy policy_;
  AdoptClient* const helper_;
  const std::string no_helper_;
  const ForeignArena arena_;
  RegionAttach* const nics_;
  GpuDevices* const gpus_;
  GpuRefusedCounters gpu_refused_;
  std::atomic<std::uint64_t> next_id_{1};
  std::vector<std::weak_ptr<ForeignCopier>> copiers_;
  MappedFiles mapped_files_;
};

}  // namespace simm::memory
