// What `simmctl top` puts on a terminal or into a stream: lines of ASCII with a paint for each
// part, cut to a width. Text of others is escaped first, so a name can not move the cursor. Thread:
// any, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace simm::ctl {

enum class Paint : std::uint8_t { plain, title, faint, good, warn, bad };

struct Piece {
  std::string text;  // ASCII without control characters
  Paint paint = Paint::plain;
};
using Line = std::vector<Piece>;

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// Printable ASCII; everything else, quotes and backslashes too, is \xNN.
std::string escaped(std::string_view text);
// At most so wide; what was cut ends with '~'.
std::string cut(std::string text, std::size_t width);
// Exactly so wide.
std::string left(std::string text, std::size_t width);
std::string right(std::string text, std::size_t width);

// "[####      ]", exactly so wide; of 0 to 1.
std::string bar(double share, std::size_t width);

// At most six characters, "-" for null: "999", "12.3k"; "1.5G" (of 1024); "65us", "1.2ms"; "97.2".
std::string short_count(const nlohmann::ordered_json& value);
std::string short_bytes(const nlohmann::ordered_json& value);
std::string short_us(const nlohmann::ordered_json& value);
std::string short_percent(const nlohmann::ordered_json& value);
// "3d04h", "2h05m", "7m30s", "12s".
std::string short_time(std::uint64_t ms);

// As one text: lines cut to `columns`, with escape sequences for the paints where `is_painted`.
std::string text_of_line(const Line& line, std::size_t columns, bool is_painted);

}  // namespace simm::ctl
