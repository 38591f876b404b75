#include "libclient/trace_parent.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "libclient/last_error.h"
#include "libclient/line.h"
#include "simm/trace.h"

namespace simm {
namespace detail {

constinit thread_local TraceParent trace_parent;
constinit std::atomic<bool> any_trace_parent{false};

namespace {

// version "-" trace "-" parent "-" flags: the places of their digits.
constexpr std::size_t kHigh = 3;
constexpr std::size_t kLow = 19;
constexpr std::size_t kParent = 36;
constexpr std::size_t kFlags = 53;
constexpr std::size_t kEnd = 55;
constexpr std::uint64_t kSampled = 1;

// In lower case alone, as the standard wants it.
std::optional<std::uint64_t> hexadecimal(std::string_view digits) noexcept {
  std::uint64_t value = 0;
  for (const char digit : digits) {
    if (digit >= '0' && digit <= '9') {
      value = value << 4 | static_cast<std::uint64_t>(digit - '0');
    } else if (digit >= 'a' && digit <= 'f') {
      value = value << 4 | static_cast<std::uint64_t>(digit - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// A later version may append fields; of its first ones it is known what they mean.
std::optional<TraceParent> parse(std::string_view text) noexcept {
  if (text.size() < kEnd) return std::nullopt;
  const auto version = hexadecimal(text.substr(0, 2));
  const bool is_known = version == 0u;
  if (!version || *version == 0xff || (is_known && text.size() != kEnd)) return std::nullopt;
  if (text.size() > kEnd && text[kEnd] != '-') return std::nullopt;
  for (const std::size_t dash : {kHigh - 1, kParent - 1, kFlags - 1}) {
    if (text[dash] != '-') return std::nullopt;
  }
  const auto high = hexadecimal(text.substr(kHigh, 16));
  const auto low = hexadecimal(text.substr(kLow, 16));
  const auto parent = hexadecimal(text.substr(kParent, 16));
  const auto flags = hexadecimal(text.substr(kFlags, 2));
  if (!high || !low || !parent || !flags) return std::nullopt;
  if ((*high | *low) == 0 || *parent == 0) return std::nullopt;
  return TraceParent{(*flags & kSampled) != 0, {*high, *low, *parent, 0}};
}

}  // namespace
}  // namespace detail

Status set_trace_parent(std::string_view text) noexcept {
  detail::forget_last_error();
  if (text.empty()) {
    detail::trace_parent = {};
    return Status::ok;
  }
  const auto parsed = detail::parse(text);
  if (!parsed) {
    constexpr std::size_t kShown = 80;
    const std::string_view shown = detail::is_line(text) ? text.substr(0, kShown) : "";
    return detail::fail(Status::invalid_argument,
                        "trace_parent = '%.*s' (%zu bytes): write 00-<32 digits>-<16 digits>-<2 "
                        "digits>, hexadecimal in lower case, or nothing",
                        static_cast<int>(shown.size()), shown.data(), text.size());
  }
  detail::trace_parent = *parsed;
  detail::any_trace_parent.store(true, std::memory_order_relaxed);
  return Status::ok;
}

}  // namespace simm
