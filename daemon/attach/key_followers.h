// KeyFollowers: the seam between a client's session and the feed of key events (daemon/admin). A
// session follows keys of its own tenant alone, whatever it asks for.
//
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>

#include "daemon/attach/tenant_rules.h"
#include "ipc/control_message.h"

namespace simm::control {

class KeyFollowers {
public:
  virtual ~KeyFollowers() = default;
  // The reply's request id is the question's.
  [[nodiscard]] virtual ipc::KeyEventsReply follow(std::uint64_t session_id, const Tenant& tenant,
                                                   const ipc::FollowKeys& question) = 0;
  // The session is over, and so is all that it followed.
  virtual void leave_all(std::uint64_t session_id) noexcept = 0;
};

}  // namespace simm::control
