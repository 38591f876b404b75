// Status for people and for std::error_code. A program that does not include this header is not
// touched by it.
//
//   std::error_code failed = simm::Status::timeout;
//   failed.message();                    // what it means, and what to do
//   failed == std::errc::timed_out;      // true
//
// Thread: any. Nothing here throws, but std::error_code::message() for want of memory.
#pragma once

#include "simm/compiler.h"

#include <string_view>
#include <system_error>
#include <type_traits>

#include "simm/status.h"

namespace simm {

// What a status means for the caller and what to do about it, in one or two sentences without a
// line end. "unknown" for a value outside the set. Static storage, ends with a zero byte.
// last_error() says more about the last call of this thread; this is for a status that was kept.
std::string_view status_text(Status status) noexcept;

// Named "simm"; one for all that is linked with the same library.
const std::error_category& status_category() noexcept;
inline std::error_code make_error_code(Status status) noexcept {
  return {static_cast<int>(status), status_category()};
}

}  // namespace simm

template <>
struct std::is_error_code_enum<simm::Status> : std::true_type {};
