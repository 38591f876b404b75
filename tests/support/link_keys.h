// Keys as two daemons with a secret have them for one link.
#pragma once

#include "daemon/transport/frame_seal.h"

namespace support {

// Of its requester. Another link has another number.
inline simm::transport::LinkKeys requester_keys(std::uint64_t link) {
  return {{{link, 1}, 2}, {{link, 3}, 4}};
}
// The same link, from its other end.
inline simm::transport::LinkKeys server_keys(std::uint64_t link) {
  const simm::transport::LinkKeys requester = requester_keys(link);
  return {requester.receive, requester.send};
}

}  // namespace support
