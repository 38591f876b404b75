// RdmaPort: one port of one RDMA device as one end of a data agent uses it: a completion queue and
// the queue pairs that report to it. Seam: on libibverbs, and simulated.
// Owned by its end (asking or serving) of a data agent. Thread: made, and its queue pairs made, on
// the control thread; the rest is the data agent's. It outlives its queue pairs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "daemon/transport/rdma/device/queue_pair.h"
#include "daemon/transport/rdma/device/rdma_work.h"
#include "simm/expected.h"

namespace simm::transport {

class RdmaPort {
public:
  virtual ~RdmaPort() = default;
  RdmaPort(const RdmaPort&) = delete;
  RdmaPort& operator=(const RdmaPort&) = delete;

  // Control thread, while the agent polls. Errors: out_of_memory (no room in the completion queue,
  // or the device has no more queue pairs), io_error.
  virtual Expected<std::unique_ptr<QueuePair>> make_queue_pair(const QueuePairConfig& config) = 0;

  // Takes what has ended, oldest first; how many.
  [[nodiscard]] virtual std::size_t poll(std::span<Completion> completions) noexcept = 0;
  // True: the next completion makes event_descriptor() readable, which it is not before. False:
  // some are there already.
  [[nodiscard]] virtual bool prepare_sleep() noexcept = 0;
  [[nodiscard]] virtual int event_descriptor() const noexcept = 0;

protected:
  RdmaPort() = default;
};

}  // namespace simm::transport
