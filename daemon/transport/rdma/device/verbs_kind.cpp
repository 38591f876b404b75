#include "daemon/transport/rdma/device/verbs_kind.h"

namespace simm::transport {

std::string_view unusable_kind(ibv_transport_type transport, std::uint8_t link_layer) noexcept {
  if (transport == IBV_TRANSPORT_IWARP) {
    return "it is an iWARP device, which connects in a way of its own; InfiniBand and RoCE are "
           "used";
  }
  const bool has_link =
      link_layer == IBV_LINK_LAYER_INFINIBAND || link_layer == IBV_LINK_LAYER_ETHERNET;
  if (transport != IBV_TRANSPORT_IB || !has_link) {
    return "it has no reliable connected queue pairs, as EFA has none; InfiniBand and RoCE are "
           "used";
  }
  return {};
}

}  // namespace simm::transport
