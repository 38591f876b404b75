#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "daemon/cluster/file_coordinator.h"
#include "simm/check.h"
#include "tests/conformance/coordinator_world.h"

namespace file_coordinator_world {

class World final : public conformance::CoordinatorWorld {
public:
  World() {
    std::string pattern = std::filesystem::temp_directory_path() / "simm-coordinator-XXXXXX";
    SIMM_CHECK(::mkdtemp(pattern.data()) != nullptr);
    directory_ = pattern;
  }
  ~World() override {
    coordinator_.reset();
    std::filesystem::remove_all(directory_);
  }

  simm::cluster::Coordinator& restart() override {
    coordinator_.reset();  // the lock goes with it
    coordinator_ = simm::cluster::FileCoordinator::open(path()).value();
    return *coordinator_;
  }
  void lose() override { std::filesystem::remove(path()); }

private:
  [[nodiscard]] std::string path() const { return directory_ + "/manager/state"; }

  std::string directory_;
  std::unique_ptr<simm::cluster::FileCoordinator> coordinator_;
};

const conformance::CoordinatorRegistration kRegistration("file",
                                                         [] { return std::make_unique<World>(); });

}  // namespace file_coordinator_world
