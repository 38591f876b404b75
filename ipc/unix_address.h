// UnixAddress: a file path as a socket address. Thread: any, immutable.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "simm/expected.h"

namespace simm::ipc {

class UnixAddress {
public:
  // invalid_argument for an empty path and for one that the kernel's structure can not hold.
  static Expected<UnixAddress> of(const std::string& path) {
    UnixAddress result;
    if (path.empty() || path.size() >= sizeof result.address_.sun_path) {
      return Error{Status::invalid_argument,
                   "socket path '" + path + "': 1 to " +
                       std::to_string(sizeof result.address_.sun_path - 1) + " bytes"};
    }
    result.address_.sun_family = AF_UNIX;
    std::memcpy(result.address_.sun_path, path.c_str(), path.size() + 1);
    return result;
  }

  [[nodiscard]] const sockaddr* get() const noexcept {
    // SAFETY: the socket calls take every address family through this type.
    return reinterpret_cast<const sockaddr*>(&address_);
  }
  [[nodiscard]] socklen_t length() const noexcept { return sizeof address_; }

private:
  sockaddr_un address_{};
};

}  // namespace simm::ipc
