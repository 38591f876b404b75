// Opens an existing shared mapping of a client for the daemon, by the rules of adoption: never more
// than the client itself may do.
//   (a) every mapping of the range is rw-s, one file, contiguous offsets
//   (b) after the open, device and inode are those read before, on tmpfs or hugetlbfs
//   (c) the open runs as the client's fsuid and fsgid, without capabilities over files
//   (d) the process is the one that connected, as the same user, and alive afterwards
// Anything else is permission_denied with the rule as the reason, and the client stages.
// Thread: a child of the helper, which acts for this client only.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "daemon/memory/helper/client_process.h"
#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::memory {

struct AdoptedFile {
  ipc::UniqueFd fd;
  std::uint64_t file_offset = 0;  // of the range's first byte
};

Expected<AdoptedFile> adopt_mapping(const ClientProcess& client, gid_t gid, std::uint64_t address,
                                    std::uint64_t length);

}  // namespace simm::memory
