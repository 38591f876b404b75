#include "simm/error_code.h"

#include <string>

namespace simm {
namespace {

class StatusCategory final : public std::error_category {
public:
  [[nodiscard]] const char* name() const noexcept override { return "simm"; }
  [[nodiscard]] std::string message(int value) const override {
    return std::string(status_text(static_cast<Status>(value)));
  }
  // The portable ones, as far as there are any of that meaning.
  [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<Status>(value)) {
      case Status::ok:
        return {};
      case Status::invalid_argument:
        return std::errc::invalid_argument;
      case Status::timeout:
        return std::errc::timed_out;
      case Status::out_of_memory:
        return std::errc::not_enough_memory;
      case Status::permission_denied:
        return std::errc::permission_denied;
      case Status::not_implemented:
        return std::errc::function_not_supported;
      case Status::unsupported:
        return std::errc::operation_not_supported;
      case Status::io_error:
        return std::errc::io_error;
      case Status::unreachable:
        return std::errc::host_unreachable;
      case Status::no_space:
        return std::errc::no_space_on_device;
      case Status::cancelled:
        return std::errc::operation_canceled;
      default:
        return {value, *this};
    }
  }
};

}  // namespace

std::string_view status_text(Status status) noexcept {
  switch (status) {
    case Status::ok:
      return "done";
    case Status::invalid_argument:
      return "an argument is wrong; the error text of the call names it, its value and the remedy";
    case Status::not_implemented:
      return "the protocol knows this, and this release can not do it";
    case Status::timeout:
      return "the deadline passed, and nothing touches the pages any more; give more time, or look "
             "for a slow daemon with `simmctl peers`";
    case Status::out_of_memory:
      return "a limit of the daemon or of the tenant is reached; `simmctl errors` names it";
    case Status::invalid_state:
      return "the client or the region is closed already, or the daemon is stopping";
    case Status::poisoned:
      return "the daemon ended this session, because it broke the protocol; `simmctl errors` says "
             "how, and the next call opens another session";
    case Status::permission_denied:
      return "the kernel or the daemon does not allow that; the error text says which rule";
    case Status::unsupported:
      return "this host, its kernel or the peer can not do that";
    case Status::incompatible:
      return "the library and the daemon are of releases that do not work together; update the "
             "older one";
    case Status::io_error:
      return "a system call failed; the error text names it";
    case Status::unreachable:
      return "no daemon answers, or the owner of the key is away; look at `simmctl status` and "
             "`simmctl peers`, and try again later";
    case Status::wrong_epoch:
      return "the daemon that was asked does not own the key any more; the call is asked again";
    case Status::not_found:
      return "there is no such object";
    case Status::exists:
      return "there is such an object already";
    case Status::size_mismatch:
      return "the object has another size";
    case Status::no_space:
      return "the pool has no room: other objects are in use, leased or pinned, or the tenant's "
             "quota is used up";
    case Status::corrupt:
      return "the bytes do not have their digest; the object is dropped";
    case Status::transfer_failed:
      return "the memory of the page could not be read or written; is it still mapped?";
    case Status::cancelled:
      return "the batch was cancelled before it was done";
  }
  return "unknown";
}

const std::error_category& status_category() noexcept {
  static const StatusCategory category;
  return category;
}

}  // namespace simm
