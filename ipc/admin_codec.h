// Encoding and decoding of admin messages: like ipc/control_codec.h, same errors, never throws.
// Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ipc/admin_message.h"
#include "simm/expected.h"

namespace simm::ipc {

Expected<std::vector<std::byte>> encode(const AdminRequest& request);
// invalid_argument when the text is longer than kAdminPageBytesMax: the caller pages.
Expected<std::vector<std::byte>> encode(const AdminReply& reply);

Expected<AdminRequest> decode_admin_request(std::span<const std::byte> packet);
Expected<AdminReply> decode_admin_reply(std::span<const std::byte> packet);

}  // namespace simm::ipc
