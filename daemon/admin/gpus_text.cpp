#include "daemon/admin/gpus_text.h"

#include <nlohmann/json.hpp>

#include "daemon/base/json_text.h"
#include "daemon/base/sanitize.h"
#include "ipc/cuda/gpu_name.h"

namespace simm::control {

using nlohmann::ordered_json;

std::string gpus_text(const std::vector<memory::GpuView>& gpus) {
  ordered_json all = ordered_json::array();
  for (const memory::GpuView& gpu : gpus) {
    all.push_back({{"gpu", all.size()},
                   {"uuid", ipc::gpu_name(gpu.uuid)},
                   {"model", base::sanitize(gpu.model, 100)},
                   {"helper", gpu.helper},
                   {"state", memory::gpu_state_name(gpu.state)},
                   {"regions", gpu.regions},
                   {"mapped_bytes", gpu.mapped_bytes},
                   {"copies_out", gpu.copies_out},
                   {"bytes_out", gpu.bytes_out},
                   {"copies_in", gpu.copies_in},
                   {"bytes_in", gpu.bytes_in},
                   {"failed", gpu.failed},
                   {"lost", gpu.lost},
                   {"share_waits", gpu.share_waits},
                   {"full_waits", gpu.full_waits},
                   {"restarts", gpu.restarts},
                   {"last_error", base::sanitize(gpu.last_error, 300)}});
  }
  return base::json_text(all);
}

}  // namespace simm::control
