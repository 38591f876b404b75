// Which kinds of RDMA devices serve: those whose reliable connected queue pairs are connected by
// the addresses that both ends tell each other; and which kinds of events they have. Pure.
// Thread: any.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string_view>

#include "daemon/transport/rdma/device/rdma_device.h"

namespace simm::transport {

// Why a device of that kind is of no use; empty: it may be. `link_layer`: of ibv_port_attr.
[[nodiscard]] std::string_view unusable_kind(ibv_transport_type transport,
                                             std::uint8_t link_layer) noexcept;

// What an event of the kernel means; `none` for those of queue pairs, whose works say so.
[[nodiscard]] DeviceEvent device_event(ibv_event_type type) noexcept;

}  // namespace simm::transport
