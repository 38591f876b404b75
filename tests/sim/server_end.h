// ServerEnd: the end of a transport at one shard of a simulated server. Thread: the one simulated
// thread; upcalls come from do_work() only.
#pragma once

#include <functional>

#include "daemon/base/ids.h"
#include "daemon/transport/transport.h"

namespace simm::sim {

class ServerEnd : public transport::Responder {
public:
  // Called whenever do_work() would find something.
  std::function<void()> wake = [] {};
  // Of the map that the server uses: for the books of the simulation only.
  base::Epoch map_epoch = 0;

  // The server's machine has died, or (unless `silent`) its process alone: nothing that it still
  // does reaches anybody.
  virtual void lose_network(bool) {}
  // Behind that: its moves end at once, so that it can be destroyed in order.
  virtual void crash() = 0;

  [[nodiscard]] virtual std::size_t incoming_count() const noexcept = 0;
};

}  // namespace simm::sim
