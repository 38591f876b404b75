#include <filesystem>
#include <memory>
#include <string>

#include "daemon/cluster/file_coordinator.h"
#include "tests/conformance/coordinator_world.h"
#include "tests/support/temporary_directory.h"

namespace file_coordinator_world {

class World final : public conformance::CoordinatorWorld {
public:
  simm::cluster::Coordinator& restart() override {
    coordinator_.reset();  // the lock goes with it
    coordinator_ = simm::cluster::FileCoordinator::open(path()).value();
    return *coordinator_;
  }
  void lose() override { std::filesystem::remove(path()); }

private:
  [[nodiscard]] std::string path() const { return directory_ / "manager/state"; }

  const simm::test_support::TemporaryDirectory directory_;
  std::unique_ptr<simm::cluster::FileCoordinator> coordinator_;
};

const conformance::CoordinatorRegistration kRegistration("file",
                                                         [] { return std::make_unique<World>(); });

}  // namespace file_coordinator_world
