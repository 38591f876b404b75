// SessionMemory: the shared memory of one session and its two bells, from creation to the final
// seals. The sequence is that of ipc/ATTACH.md: the pages are the client's (`take`), so its memory
// cgroup pays for them, or the daemon makes them for an older client (`create`), which takes 10 ms
// where there are many lanes.
// Thread: control; the tenant's sealer makes and takes pages.
#pragma once

#include <cstdint>
#include <memory>

#include "ipc/bell_socket.h"
#include "ipc/layout.h"
#include "ipc/mapping.h"
#include "ipc/memory_file.h"
#include "simm/expected.h"

namespace simm::control {

// The pages and the daemon's mapping of them. All exist, so no later access can fail.
struct SessionPages {
  // Made here, with the header, and not sealed against the client yet. no_space without pages.
  static Expected<SessionPages> create(std::uint64_t session_id, std::uint32_t lanes,
                                       std::uint32_t layout);
  // Made by a client. It is a memory file of exactly the session's size, sealed here for good, and
  // then whole: a missing page is invalid_argument. The header and the rings' cursors are written
  // here, and the pages are in the daemon's page table, so no thread faults one in later.
  // The client can make this wait for as long as it likes. Thread: its tenant's sealer.
  static Expected<SessionPages> take(ipc::UniqueFd fd, std::uint32_t lanes, std::uint32_t layout);
  // Whether the pages of clients stay in memory. A client chooses how much its cgroup may have, and
  // so when its pages go to swap. So this daemon locks them, or there is no swap.
  static bool stay() noexcept;

  std::shared_ptr<ipc::MemoryFile> file;  // of create(); with whoever seals it
  ipc::Mapping mapping;
};

struct SessionMemory {
  static Expected<SessionMemory> create(std::uint64_t session_id, std::uint32_t lanes,
                                        std::uint32_t layout);
  // Its pages come from the client.
  static Expected<SessionMemory> without_pages(std::uint32_t lanes, std::uint32_t layout);

  SessionPages pages;
  ipc::BellSocket bell;         // ours
  ipc::BellSocket client_bell;  // goes to the client, then is closed here
  std::uint32_t lanes = 0;
  std::uint32_t layout = 0;
  bool is_of_client = false;
};

}  // namespace simm::control
