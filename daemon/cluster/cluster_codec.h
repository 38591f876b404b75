// Encoding and decoding of cluster messages and of the manager's state. Their bytes are
// looked at here alone. A decoder copies them and reads them under a traversal and a nesting limit.
// The values that it returns satisfy every limit of cluster_message.h and slot_map.h. It never
// throws.
//
// Errors: invalid_argument for malformed bytes or a broken limit, incompatible for a message kind
// that this version does not know. Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "daemon/cluster/cluster_message.h"
#include "daemon/cluster/manager_state.h"
#include "simm/expected.h"

namespace simm::cluster {

// invalid_argument when a text is longer than its limit (reasons are cut instead).
Expected<std::vector<std::byte>> encode(const MemberMessage& message);
Expected<std::vector<std::byte>> encode(const ManagerMessage& message);
Expected<std::vector<std::byte>> encode(const ManagerState& state);

Expected<MemberMessage> decode_member_message(std::span<const std::byte> bytes);
Expected<ManagerMessage> decode_manager_message(std::span<const std::byte> bytes);
Expected<ManagerState> decode_manager_state(std::span<const std::byte> bytes);

}  // namespace simm::cluster
