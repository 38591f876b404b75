// ManagerDaemon: `simmd manager`: the members and the map of a cluster, and nothing of its data.
// One thread. When it is away nothing is lost and nothing waits but changes of the map.
// Thread: the main thread, which becomes the control thread.
#pragma once

#include <memory>

#include "daemon/base/config.h"
#include "simm/expected.h"

namespace simm {

class ManagerDaemon {
public:
  // Loads the state and listens. The errors are for people.
  static Expected<std::unique_ptr<ManagerDaemon>> create(base::Config config);
  ~ManagerDaemon();

  // Serves until SIGTERM or SIGINT. There is nothing to drain: the state is stored already.
  void run();

private:
  struct Parts;
  explicit ManagerDaemon(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace simm
