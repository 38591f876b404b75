// Encoding and decoding of attach messages. The one place where their bytes are looked at. A
// decoder copies the packet and reads it under a traversal and a nesting limit. It returns plain
// values that satisfy every limit of control_message.h, or an error. It never throws.
//
// Errors: invalid_argument for a malformed packet or a broken limit, incompatible for a message
// kind that this version does not know. Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ipc/control_message.h"
#include "simm/expected.h"

namespace simm::ipc {

// invalid_argument when a text is longer than its limit (reasons are cut instead).
Expected<std::vector<std::byte>> encode(const ClientMessage& message);
Expected<std::vector<std::byte>> encode(const DaemonMessage& message);

Expected<ClientMessage> decode_client_message(std::span<const std::byte> packet);
Expected<DaemonMessage> decode_daemon_message(std::span<const std::byte> packet);

}  // namespace simm::ipc
