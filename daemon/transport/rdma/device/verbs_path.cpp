#include "daemon/transport/rdma/device/verbs_path.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace simm::transport {
namespace {

constexpr std::uint16_t kPartitionMask = 0x7fff;  // without the bit of full members
constexpr std::uint8_t kHopsMax = 64;

bool is_same_subnet(const QueuePairAddress& one, const QueuePairAddress& other) noexcept {
  return std::equal(one.gid.begin(), one.gid.begin() + 8, other.gid.begin());
}

std::string hex_of(std::uint16_t key) {
  char text[8] = {};
  std::snprintf(text, sizeof text, "0x%04x", key);
  return text;
}

}  // namespace

std::uint16_t forwarding_lid(const Gid& gid) noexcept {
  return static_cast<std::uint16_t>(gid[4] << 8 | gid[5]);
}

ibv_ah_attr path_to(const QueuePairAddress& near, const QueuePairAddress& far,
                    const PathSettings& settings) noexcept {
  ibv_ah_attr path{};
  path.dlid = far.lid;
  path.sl = settings.service_level;
  path.port_num = settings.port;
  const bool is_routed = far.is_ethernet || !is_same_subnet(near, far);
  // Within a subnet of InfiniBand the short address is enough, as a rule.
  if (!is_routed && !settings.needs_global_header) return path;
  path.is_global = 1;
  std::copy(far.gid.begin(), far.gid.end(), path.grh.dgid.raw);
  path.grh.sgid_index = static_cast<std::uint8_t>(settings.gid_index);
  path.grh.hop_limit = kHopsMax;
  path.grh.traffic_class = settings.traffic_class;
  // The far end's own LID means nothing here: packets go to the router.
  const std::uint16_t router = forwarding_lid(far.gid);
  if (!far.is_ethernet && is_routed && router != 0) path.dlid = router;
  return path;
}

Expected<Partition> choose_partition(std::span<const std::uint16_t> table, std::uint16_t key,
                                     std::uint16_t index) {
  std::string there;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if ((table[i] & kPartitionMask) == 0) continue;  // an empty entry
    const bool is_it =
        key == 0 ? i == index : (table[i] & kPartitionMask) == (key & kPartitionMask);
    if (is_it) return Partition{static_cast<std::uint16_t>(i), table[i]};
    there += (there.empty() ? "" : ", ") + std::to_string(i) + ": " + hex_of(table[i]);
  }
  const std::string wanted =
      key == 0 ? "rdma.partition_key_index = " + std::to_string(index)
               : "rdma.partition_key = " + std::to_string(key) + " (" + hex_of(key) + ")";
  return Error{Status::invalid_argument,
               wanted + ": the port is in no such partition; it is in (index: key) " +
                   (there.empty() ? "none" : there)};
}

}  // namespace simm::transport
