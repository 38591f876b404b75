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

DeviceEvent device_event(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
      return DeviceEvent::gone;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      return DeviceEvent::changed;
    default:
      return DeviceEvent::none;
  }
}

}  // namespace simm::transport
