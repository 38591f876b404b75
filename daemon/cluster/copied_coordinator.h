// CopiedCoordinator: a Coordinator whose states also go into a second one. The first decides.
// Where the first begins empty, it begins with the copy's state. So a cluster goes from a file to
// etcd and back with the same epochs. A copy of another cluster's life is refused: it would be
// lost. A copy that can not be written changes nothing else. Thread: the control thread.
#pragma once

#include <functional>

#include "daemon/cluster/coordinator.h"

namespace simm::cluster {

class CopiedCoordinator final : public Coordinator {
public:
  // Both outlive it. `on_failure`: told why a copy was not written.
  CopiedCoordinator(Coordinator& first, Coordinator& copy,
                    std::function<void(const Error&)> on_failure);

  Expected<std::optional<StoredState>> load() override;
  Outcome store(base::Epoch expected, const StoredState& state) override;

private:
  Coordinator& first_;
  Coordinator& copy_;
  const std::function<void(const Error&)> on_failure_;
};

}  // namespace simm::cluster
