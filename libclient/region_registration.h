// What a region record asks the daemon, and what it makes of the answer: the choice of the kind.
//   memory file (fd)        shared, or staged where the daemon says so
//   automatic               whatever the daemon can do, then foreign if allowed, then staged
//   a kind that was named   that one or an error; after a re-attach staged instead of an error
// Thread: under Link's control mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "ipc/control_message.h"
#include "libclient/region_record.h"
#include "simm/expected.h"

namespace simm::detail {

struct RegionRequest {
  ipc::RegisterRegion message;
  int fd = -1;
};

// The request for the record; nothing when the daemon need not know (staged).
std::optional<RegionRequest> first_request(const RegionRecord& record);

// Takes the reply into the record, for the session of that generation. The next request where the
// daemon could not do it and another kind is worth a try. An error only when the record insists on
// a kind and `restoring` is false.
Expected<std::optional<RegionRequest>> take_reply(RegionRecord& record, std::uint32_t generation,
                                                  const ipc::RegionReply& reply, bool restoring);

}  // namespace simm::detail
