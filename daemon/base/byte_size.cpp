#include "daemon/base/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace simm::base {
namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t bytes;
};
constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"kb", 1000},
                                          {"k", 1024},
                                          {"kib", 1024},
                                          {"mb", 1000ull * 1000},
                                          {"m", 1ull << 20},
                                          {"mib", 1ull << 20},
                                          {"gb", 1000ull * 1000 * 1000},
                                          {"g", 1ull << 30},
                                          {"gib", 1ull << 30},
                                          {"tb", 1000ull * 1000 * 1000 * 1000},
                                          {"t", 1ull << 40},
                                          {"tib", 1ull << 40}}};

std::string lower(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') {
      result += static_cast<char>(c - 'A' + 'a');
    } else if (c != ' ') {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const std::string clean = lower(text);
  const std::size_t digits = clean.find_first_not_of("0123456789.");
  const std::string number = clean.substr(0, digits);
  const std::string unit = digits == std::string::npos ? "" : clean.substr(digits);
  if (number.empty() || number.size() > 20) return std::nullopt;
  for (const Unit& known : kUnits) {
    if (known.name != unit) continue;
    if (number.find('.') == std::string::npos) {
      std::uint64_t whole = 0;
      const char* end = number.data() + number.size();
      const auto [stop, failed] = std::from_chars(number.data(), end, whole);
      if (failed != std::errc{} || stop != end) return std::nullopt;
      constexpr std::uint64_t kMax = ~std::uint64_t{0} >> 1;
      if (whole > kMax / known.bytes) return std::nullopt;
      return whole * known.bytes;
    }
    char* stop = nullptr;
    const double value = std::strtod(number.c_str(), &stop) * static_cast<double>(known.bytes);
    if (stop != number.c_str() + number.size() || !(value >= 0 && value < 9e18)) {
      return std::nullopt;
    }
    return static_cast<std::uint64_t>(std::llround(value));
  }
  return std::nullopt;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kNames[unit]);
  return text.data();
}

std::optional<ByteShare> parse_byte_share(std::string_view text) {
  if (!text.empty() && text.back() == '%') {
    const auto percent = parse_bytes(text.substr(0, text.size() - 1));
    if (!percent || *percent < 1 || *percent > 100) return std::nullopt;
    return ByteShare{0, static_cast<std::uint32_t>(*percent)};
  }
  const auto bytes = parse_bytes(text);
  if (!bytes) return std::nullopt;
  return ByteShare{*bytes, 0};
}

}  // namespace simm::base
