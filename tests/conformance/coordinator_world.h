// CoordinatorWorld: what an implementation of the Coordinator seam brings to the conformance suite.
// To have one tested, derive from it in a file here and register a factory with a static
// CoordinatorRegistration. Thread: the test's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cluster/coordinator.h"

namespace conformance {

class CoordinatorWorld {
public:
  virtual ~CoordinatorWorld() = default;
  // The Coordinator of a manager that starts now; the one before it has died.
  virtual simm::cluster::Coordinator& restart() = 0;
  // Takes away all that was stored.
  virtual void lose() = 0;
};

struct CoordinatorFactory {
  std::string name;
  std::function<std::unique_ptr<CoordinatorWorld>()> make;
};

std::vector<CoordinatorFactory>& coordinators();

struct CoordinatorRegistration {
  CoordinatorRegistration(std::string name,
                          std::function<std::unique_ptr<CoordinatorWorld>()> make) {
    coordinators().push_back({std::move(name), std::move(make)});
  }
};

}  // namespace conformance
