#include "daemon/tools/simmctl/screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "daemon/base/sanitize.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

const char* paint_code(Paint paint) noexcept {
  switch (paint) {
    case Paint::plain:
      break;
    case Paint::title:
      return "\033[1m";
    case Paint::faint:
      return "\033[2m";
    case Paint::good:
      return "\033[32m";
    case Paint::warn:
      return "\033[33m";
    case Paint::bad:
      return "\033[31m";
  }
  return "";
}

// Three digits and a letter: what is below ten has one digit behind the point.
std::string scaled(double value, double step, std::string_view units) {
  std::size_t unit = 0;
  // 999.6 would be shown as 1000.
  while (value >= (step == 1024 ? 1023.5 : 999.5) && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  std::array<char, 32> text{};
  const bool is_whole = value >= 99.95 || (unit == 0 && value == std::floor(value));
  std::snprintf(text.data(), text.size(), is_whole ? "%.0f" : "%.1f", value);
  std::string shown = text.data();
  if (unit > 0) shown += units[unit];
  return shown;
}

}  // namespace

std::string escaped(std::string_view text) {
  return base::sanitize(text);
}

std::string cut(std::string text, std::size_t width) {
  if (text.size() <= width) return text;
  text.resize(width);
  if (width > 0) text.back() = '~';
  return text;
}

std::string left(std::string text, std::size_t width) {
  text = cut(std::move(text), width);
  text.resize(width, ' ');
  return text;
}

std::string right(std::string text, std::size_t width) {
  text = cut(std::move(text), width);
  return std::string(width - text.size(), ' ') + text;
}

std::string bar(double share, std::size_t width) {
  if (width < 3) return std::string(width, ' ');
  const std::size_t inner = width - 2;
  const double part = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const auto full = static_cast<std::size_t>(std::lround(part * static_cast<double>(inner)));
  return "[" + std::string(full, '#') + std::string(inner - full, ' ') + "]";
}

std::string short_count(const ordered_json& value) {
  return value.is_number() ? scaled(value.get<double>(), 1000, " kMGTPE") : "-";
}

std::string short_bytes(const ordered_json& value) {
  return value.is_number() ? scaled(value.get<double>(), 1024, "BKMGTPE") : "-";
}

std::string short_us(const ordered_json& value) {
  if (!value.is_number()) return "-";
  const auto us = value.get<double>();
  if (us < 999.5) return scaled(us, 1e12, " ") + "us";
  if (us < 999'500) return scaled(us / 1000, 1e12, " ") + "ms";
  return scaled(us / 1'000'000, 1e12, " ") + "s";
}

std::string short_percent(const ordered_json& value) {
  return value.is_number() ? scaled(value.get<double>(), 1e12, " ") : "-";
}

std::string short_time(std::uint64_t ms) {
  const std::uint64_t seconds = ms / 1000;
  const auto two = [](std::uint64_t large, char a, std::uint64_t small, char b) {
    return std::to_string(large) + a + (small < 10 ? "0" : "") + std::to_string(small) + b;
  };
  if (seconds >= 86'400) return two(seconds / 86'400, 'd', seconds / 3600 % 24, 'h');
  if (seconds >= 3600) return two(seconds / 3600, 'h', seconds / 60 % 60, 'm');
  if (seconds >= 60) return two(seconds / 60, 'm', seconds % 60, 's');
  return std::to_string(seconds) + "s";
}

std::string text_of_line(const Line& line, std::size_t columns, bool is_painted) {
  std::size_t whole = 0;
  for (const Piece& piece : line) whole += piece.text.size();
  std::string out;
  std::size_t room = columns;
  for (const Piece& piece : line) {
    std::string text = piece.text;
    if (whole > columns && text.size() >= room) {
      text.resize(std::min(text.size(), room));
      if (!text.empty()) text.back() = '~';
    }
    room -= std::min(room, text.size());
    const bool has_code = is_painted && piece.paint != Paint::plain && !text.empty();
    out += has_code ? paint_code(piece.paint) + text + "\033[0m" : text;
    if (room == 0) break;
  }
  if (!is_painted) out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace simm::ctl
