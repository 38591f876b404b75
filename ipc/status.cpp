#include "simm/status.h"

#include <cstring>

#include "simm/expected.h"

namespace simm {

std::string_view status_name(Status status) noexcept {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::invalid_argument:
      return "invalid_argument";
    case Status::not_implemented:
      return "not_implemented";
    case Status::timeout:
      return "timeout";
    case Status::out_of_memory:
      return "out_of_memory";
    case Status::invalid_state:
      return "invalid_state";
    case Status::poisoned:
      return "poisoned";
    case Status::permission_denied:
      return "permission_denied";
    case Status::unsupported:
      return "unsupported";
    case Status::incompatible:
      return "incompatible";
    case Status::io_error:
      return "io_error";
    case Status::unreachable:
      return "unreachable";
    case Status::wrong_epoch:
      return "wrong_epoch";
    case Status::not_found:
      return "not_found";
    case Status::exists:
      return "exists";
    case Status::size_mismatch:
      return "size_mismatch";
    case Status::no_space:
      return "no_space";
    case Status::corrupt:
      return "corrupt";
    case Status::transfer_failed:
      return "transfer_failed";
    case Status::cancelled:
      return "cancelled";
  }
  return "unknown";
}

bool is_known_status(std::int32_t value) noexcept {
  return status_name(static_cast<Status>(value)) != "unknown";
}

Error system_error(std::string_view what, int errno_value) {
  return Error{Status::io_error, std::string(what) + ": " + std::strerror(errno_value)};
}

}  // namespace simm
