// HelperLink: a way to the privileged helper, or why there is none. A plain value.
#pragma once

#include <string>

#include "ipc/fd_socket.h"

namespace simm::memory {

struct HelperLink {
  ipc::FdSocket socket;  // invalid: none
  std::string why_not;
};

}  // namespace simm::memory
