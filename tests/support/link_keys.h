// Keys as two daemons with a secret have them for one link.
#pragma once

#include "daemon/transport/frame_seal.h"

namespace support {

// Of its asker. Another link has another number.
inline simm::transport::LinkKeys asker_keys(std::uint64_t link) {
  return {{{link, 1}, 2}, {{link, 3}, 4}};
}
// The same link, from its other end.
inline simm::transport::LinkKeys server_keys(std::uint64_t link) {
  const simm::transport::LinkKeys asker = asker_keys(link);
  return {asker.receive, asker.send};
}

}  // namespace support
