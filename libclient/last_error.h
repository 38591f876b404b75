// The failure of the calling thread's last call in words: what simm::last_error() and
// simm_last_error() return. Each call of the public interface begins without one. A fixed buffer
// per thread, so that a failing data call allocates nothing. Thread: any; each has its own.
//
// A caller that gave room for the words (CallReport::error_text) has them there as well: a batch
// may end in another thread, where the caller would not find them.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "simm/expected.h"

namespace simm::detail {

// The caller's room for the words of one call; perhaps none. Thread: that of whoever works on the
// call, one at a time.
class ErrorText {
public:
  ErrorText() noexcept = default;
  explicit ErrorText(std::span<char> room) noexcept : data_(room.data()), bytes_(room.size()) {
    if (data_ == nullptr) bytes_ = 0;
  }

  void clear() const noexcept {
    if (bytes_ != 0) data_[0] = '\0';
  }
  // There is room, and nothing in it.
  [[nodiscard]] bool wanted() const noexcept { return bytes_ != 0 && data_[0] == '\0'; }
  // What does not fit is cut between two characters.
  void set(const char* words) const noexcept;

private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// For its time fail() writes into that text, too; without one into the thread's alone.
class ErrorScope {
public:
  explicit ErrorScope(const ErrorText& text = ErrorText()) noexcept;
  ~ErrorScope();
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;

private:
  ErrorText before_;
};

// Puts the thread's text back at its end: what is called meanwhile has errors of its own.
class KeptLastError {
public:
  KeptLastError() noexcept;
  ~KeptLastError();
  KeptLastError(const KeptLastError&) = delete;
  KeptLastError& operator=(const KeptLastError&) = delete;

private:
  const ErrorScope nobody_;
  std::array<char, 512> text_;
};

void forget_last_error() noexcept;

// printf-style; longer texts are cut. Returns `status`, so that a failure is one statement.
Status fail(Status status, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

// The same for an Error on its way out of the library.
Error fail(Error error) noexcept;

// The daemon's answer for a page of the call with that text, unless there is a text already.
void fail_page(const ErrorText& text, std::size_t item, Status status) noexcept;

}  // namespace simm::detail
