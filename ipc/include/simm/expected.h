// Expected<T>: a value, or an Error that says what went wrong in words. Used on set-up and control
// paths. The data path speaks bare Status, because an Error owns a string and so may allocate.
#pragma once

#include "simm/compiler.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

#include "simm/status.h"

namespace simm {

// Why something failed. `context` names the field, the value and the remedy, for a person to read.
struct Error {
  Status status = Status::io_error;
  std::string context;
};

// An Error for a failed system call: "<what>: <strerror(errno_value)>".
Error system_error(std::string_view what, int errno_value);

template <typename T>
class [[nodiscard]] Expected {
public:
  Expected(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  // Asking for the value of an error, or the error of a value, is our bug: it aborts.
  [[nodiscard]] T& value() & { return *held<0>(); }
  [[nodiscard]] const T& value() const& { return *held<0>(); }
  [[nodiscard]] T&& value() && { return std::move(*held<0>()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const& { return *held<1>(); }
  [[nodiscard]] Error&& error() && { return std::move(*held<1>()); }
  [[nodiscard]] Status status() const noexcept {
    return has_value() ? Status::ok : std::get_if<1>(&state_)->status;
  }

private:
  template <std::size_t kIndex>
  auto* held() {
    auto* alternative = std::get_if<kIndex>(&state_);
    if (alternative == nullptr) [[unlikely]]
      abort_with_misuse();
    return alternative;
  }
  template <std::size_t kIndex>
  const auto* held() const {
    const auto* alternative = std::get_if<kIndex>(&state_);
    if (alternative == nullptr) [[unlikely]]
      abort_with_misuse();
    return alternative;
  }
  [[noreturn]] void abort_with_misuse() const {
    const Error* error = std::get_if<1>(&state_);
    std::fprintf(stderr, "Expected: %s%s\n", error ? "value() of an error: " : "error() of a value",
                 error ? error->context.c_str() : "");
    std::abort();
  }

  std::variant<T, Error> state_;
};

// Success without a value.
struct Done {};
using Outcome = Expected<Done>;

}  // namespace simm
