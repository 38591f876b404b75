#include "daemon/admin/gpus_text.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/base/byte_size.h"
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
                   {"leases", gpu.leases},
                   {"lent_bytes", gpu.lent_bytes},
                   {"tier_bytes_max", gpu.tier_bytes_max},
                   {"tier_bytes", gpu.tier_bytes},
                   {"tier_used_bytes", gpu.tier_used_bytes},
                   {"tier_pieces", gpu.tier_pieces},
                   {"tier_hits", gpu.tier_hits},
                   {"tier_hit_bytes", gpu.tier_hit_bytes},
                   {"tier_peer_hits", gpu.tier_peer_hits},
                   {"tier_peer_hit_bytes", gpu.tier_peer_hit_bytes},
                   {"tier_host_hits", gpu.tier_host_hits},
                   {"tier_host_hit_bytes", gpu.tier_host_hit_bytes},
                   {"tier_admitted", gpu.tier_admitted},
                   {"tier_evicted", gpu.tier_evicted},
                   {"tier_refused", gpu.tier_refused},
                   {"tier_revoked_bytes", gpu.tier_revoked_bytes},
                   {"tier_revoke_us", gpu.tier_revoke_ns / 1000},
                   {"tier_revoke_max_us", gpu.tier_revoke_max_ns / 1000},
                   {"restarts", gpu.restarts},
                   {"last_error", base::sanitize(gpu.last_error, 300)}});
  }
  return base::json_text(all);
}

Expected<TierOrder> parse_tier_order(std::string_view text) {
  const Error unknown{Status::invalid_argument,
                      "gpus: tier = \"" + base::sanitize(text, 100) +
                          "\": a size for all GPUs, as 0 or 8GiB, or for one, as 0=8GiB"};
  TierOrder order;
  if (const std::size_t equals = text.find('='); equals != text.npos) {
    std::size_t gpu = 0;
    const char* const end = text.data() + equals;
    const auto [number_end, failure] = std::from_chars(text.data(), end, gpu);
    if (failure != std::errc() || number_end != end) return unknown;
    order.gpu = gpu;
    text.remove_prefix(equals + 1);
  }
  const std::optional<std::uint64_t> bytes = base::parse_bytes(text);
  if (!bytes) return unknown;
  order.bytes = *bytes;
  return order;
}

}  // namespace simm::control
