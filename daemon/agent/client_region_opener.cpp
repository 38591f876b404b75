#include "daemon/agent/client_region_opener.h"

#include <utility>

namespace simm {

ClientRegionOpener::ClientRegionOpener(const base::Config& config,
                                       const control::TenantRules& tenants,
                                       memory::HelperLink helper, ipc::FdSocket gpu_keeper,
                                       const memory::ForeignArena& arena,
                                       memory::RegionAttach* nics, base::CounterSet& counters)
    : lend_bytes_max_(config.gpu.lend_bytes_max),
      registrar_(
          {config.memory.adopt, config.memory.foreign, tenants.are_several()},
          helper.socket.valid()
              ? &helper_.emplace(std::move(helper.socket), config.memory.adopt_socket)
              : nullptr,
          helper.why_not, arena, nics,
          gpu_keeper.valid()
              ? &gpus_.emplace(std::move(gpu_keeper), arena, config.node.prefault.value_or(false),
                               memory::GpuTierSize{config.gpu.tier_bytes, config.gpu.reserve_bytes})
              : nullptr,
          memory::GpuRefusedCounters(counters.begin_writer())) {}

control::RegionAnswer ClientRegionOpener::open(control::RegionRequest request) {
  auto made = registrar_.make(request.account->owner, request.wanted, std::move(request.fd));
  control::RegionAnswer answer;
  if (!made) {
    answer.status = made.status();
    answer.kind = request.wanted.kind;
    answer.reason = made.error().context;
    return answer;
  }
  answer.kind = made->kind;
  answer.reason = std::move(made->reason);
  answer.memory = std::move(made->memory);
  if (answer.memory != nullptr) answer.memory->region().session_id = request.session_id;
  return answer;
}

}  // namespace simm
