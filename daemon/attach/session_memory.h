// SessionMemory: the shared memory of one session and its two bells, from creation to the final
// seals. The sequence is that of ipc/ATTACH.md: made and prefaced before the client sees it, sealed
// when the client has mapped it, read only after that.
// Thread: control.
#pragma once

#include <cstdint>
#include <memory>

#include "ipc/bell_socket.h"
#include "ipc/layout.h"
#include "ipc/mapping.h"
#include "ipc/memory_file.h"
#include "simm/expected.h"

namespace simm::control {

struct SessionMemory {
  // All pages exist when this returns, so no later access can fail. no_space without them.
  static Expected<SessionMemory> create(std::uint64_t session_id, std::uint32_t lanes,
                                        std::uint32_t layout);

  std::shared_ptr<ipc::MemoryFile> file;  // with whoever seals it
  ipc::Mapping mapping;
  ipc::BellSocket bell;         // ours
  ipc::BellSocket client_bell;  // goes to the client, then is closed here
  std::uint32_t lanes = 0;

  [[nodiscard]] ipc::SessionHeader* header() const noexcept;
};

}  // namespace simm::control
