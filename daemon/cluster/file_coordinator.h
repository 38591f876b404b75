// FileCoordinator: the state in one file, for one manager. A new state is written beside it,
// synced, and renamed over it, so the file is the old state or the new one, whole, whatever dies
// when. A lock file beside it keeps a second manager out while the first lives.
//
// The file is the envelope of state_envelope.h.
// Thread: the control thread.
#pragma once

#include <memory>
#include <string>

#include "daemon/cluster/coordinator.h"
#include "ipc/fd.h"

namespace simm::cluster {

class FileCoordinator final : public Coordinator {
public:
  // Creates the directory of `path` (0700) if need be. invalid_state: another manager holds it.
  static Expected<std::unique_ptr<FileCoordinator>> open(const std::string& path);

  Expected<std::optional<StoredState>> load() override;
  Outcome store(base::Epoch expected, const StoredState& state) override;

private:
  FileCoordinator(std::string path, ipc::UniqueFd lock);

  [[nodiscard]] Outcome write_beside(const StoredState& state) const;

  const std::string path_;
  const ipc::UniqueFd lock_;
};

}  // namespace simm::cluster
