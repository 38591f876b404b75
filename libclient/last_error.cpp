#include "libclient/last_error.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "simm/batch.h"

namespace simm {
namespace {

constexpr std::size_t kLastErrorBytes = 512;
thread_local char last_error_text[kLastErrorBytes] = "";
thread_local detail::ErrorText call_text;  // of the call at hand

// How many of the first `bytes` of a text are whole characters: a name in it may be UTF-8.
std::size_t whole_characters(const char* text, std::size_t bytes) noexcept {
  std::size_t lead = bytes;
  const auto at = [text](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  while (lead != 0 && bytes - lead < 3 && (at(lead - 1) & 0xC0u) == 0x80u) --lead;
  if (lead == 0 || at(lead - 1) < 0xC0u) return bytes;  // ASCII, or no UTF-8 at all
  const unsigned char first = at(--lead);
  const std::size_t length = first >= 0xF0u ? 4 : first >= 0xE0u ? 3 : 2;
  return bytes - lead < length ? lead : bytes;
}

// What snprintf() has written, which may have been longer.
void end_whole(int wanted) noexcept {
  if (wanted < 0 || static_cast<std::size_t>(wanted) < kLastErrorBytes) return;
  last_error_text[whole_characters(last_error_text, kLastErrorBytes - 1)] = '\0';
}

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

void ErrorText::set(const char* words) const noexcept {
  if (bytes_ == 0) return;
  const std::size_t length = std::strlen(words);
  const std::size_t taken =
      length < bytes_ ? length : whole_characters(words, std::min(length, bytes_ - 1));
  std::memcpy(data_, words, taken);
  data_[taken] = '\0';
}

ErrorScope::ErrorScope(const ErrorText& text) noexcept : before_(call_text) {
  call_text = text;
}
ErrorScope::~ErrorScope() {
  call_text = before_;
}

KeptLastError::KeptLastError() noexcept {
  static_assert(sizeof text_ == sizeof last_error_text);
  std::memcpy(text_.data(), last_error_text, sizeof last_error_text);
}
KeptLastError::~KeptLastError() {
  std::memcpy(last_error_text, text_.data(), sizeof last_error_text);
}

void forget_last_error() noexcept {
  last_error_text[0] = '\0';
}

void fail_page(const ErrorText& text, std::size_t item, Status status) noexcept {
  if (last_error_text[0] != '\0' && !text.wanted()) return;
  const ErrorScope scope(text);
  (void)fail(status, "items[%zu]: %s: %s", item, status_name(status).data(), page_remedy(status));
}

Status fail(Status status, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  end_whole(std::vsnprintf(last_error_text, sizeof last_error_text, format, arguments));
  va_end(arguments);
  call_text.set(last_error_text);
  return status;
}

Error fail(Error error) noexcept {
  end_whole(std::snprintf(last_error_text, sizeof last_error_text, "%s", error.context.c_str()));
  call_text.set(last_error_text);
  return error;
}

}  // namespace detail
}  // namespace simm
