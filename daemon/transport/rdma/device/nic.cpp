#include "daemon/transport/rdma/device/nic.h"

namespace simm::transport {

const char* nic_state_name(NicState state) noexcept {
  switch (state) {
    case NicState::down:
      return "down";
    case NicState::init:
      return "init";
    case NicState::armed:
      return "armed";
    case NicState::active:
      return "active";
    case NicState::missing:
      return "missing";
    case NicState::unknown:
      break;
  }
  return "unknown";
}

const char* link_layer_name(LinkLayer layer) noexcept {
  switch (layer) {
    case LinkLayer::infiniband:
      return "infiniband";
    case LinkLayer::ethernet:
      return "ethernet";
    case LinkLayer::unknown:
      break;
  }
  return "unknown";
}

}  // namespace simm::transport
