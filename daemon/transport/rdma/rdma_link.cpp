#include "daemon/transport/rdma/rdma_link.h"

namespace simm::transport {

Expected<std::unique_ptr<RdmaLink>> make_rdma_link(RdmaDevice& device, RdmaPort& port,
                                                   bool is_requester) {
  constexpr std::size_t kBytes = std::size_t{kReceives + kSendBuffers} * kPartBufferBytes;
  auto link = std::make_unique<RdmaLink>();
  auto hold = device.hold();
  if (!hold) return std::move(hold).error();
  link->hold = std::move(*hold);
  link->memory = std::make_unique<std::byte[]>(kBytes);
  auto registration =
      device.register_memory({link->memory.get(), kBytes, -1, 0}, RemoteAccess::none);
  if (!registration) return std::move(registration).error();
  link->registration = std::move(*registration);
  auto queue_pair = port.make_queue_pair(queue_pair_config(is_requester));
  if (!queue_pair) return std::move(queue_pair).error();
  link->queue_pair = std::move(*queue_pair);
  return link;
}

}  // namespace simm::transport
