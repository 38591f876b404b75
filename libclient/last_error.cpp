#include "libclient/last_error.h"

#include <cstdarg>
#include <cstdio>

#include "simm/batch.h"

namespace simm {
namespace {

constexpr std::size_t kLastErrorBytes = 512;
thread_local char last_error_text[kLastErrorBytes] = "";

}  // namespace

const char* last_error() noexcept {
  return last_error_text;
}

namespace detail {

Status fail(Status status, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_error_text, sizeof last_error_text, format, arguments);
  va_end(arguments);
  return status;
}

Error fail(Error error) noexcept {
  std::snprintf(last_error_text, sizeof last_error_text, "%s", error.context.c_str());
  return error;
}

}  // namespace detail
}  // namespace simm
