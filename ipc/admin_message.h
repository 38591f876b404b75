// What simmctl and the daemon tell each other over the admin socket, as plain values.
// ipc/schema/admin.capnp is the format, ipc/admin_codec.h the way in and out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ipc/control_message.h"
#include "simm/status.h"

namespace simm::ipc {

// One page of a reply: what fits into one packet beside its framing.
inline constexpr std::size_t kAdminPageBytesMax = 60 * 1024;
inline constexpr std::size_t kAdminArgumentBytesMax = 4096;

struct AdminRequest {
  std::uint64_t request_id = 0;
  std::string command;
  std::string argument;
  std::uint64_t cursor = 0;  // 0 = from the start, else next_cursor of the page before
  bool operator==(const AdminRequest&) const = default;
};

struct AdminReply {
  std::uint64_t request_id = 0;
  Status status = Status::ok;
  std::string text;               // JSON, or one page of it
  std::uint64_t next_cursor = 0;  // 0 = this was the last page
  bool operator==(const AdminReply&) const = default;
};

}  // namespace simm::ipc
