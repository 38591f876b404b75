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

namespace {

const char* page_remedy(Status status) noexcept {
  switch (status) {
    case Status::timeout:
      return "no answer in time: raise timeout_ms, or look at `simmctl status`";
    case Status::no_space:
      return "the pool, or the tenant's share or budget of it, is full";
    case Status::unreachable:
      return "the daemon, or the owner of the key, is away: try again";
    case Status::invalid_argument:
      return "the object is longer than the view, or the offset behind its end: give more room, or "
             "ask for a range";
    case Status::transfer_failed:
      return "the bytes could not be moved whole: try again";
    default:
      return "the daemon's answer";
  }
}

}  // namespace

void forget_last_error() noexcept {
  last_error_text[0] = '\0';
}

void fail_page(std::size_t item, Status status) noexcept {
  if (last_error_text[0] != '\0') return;
  (void)fail(status, "items[%zu]: %s: %s", item, status_name(status).data(), page_remedy(status));
}

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
