#include "daemon/base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/base/hash.h"
#include "daemon/base/sanitize.h"

namespace simm::base {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warning", "info", "debug"};
constexpr std::array<std::string_view, 4> kJournalPrefixes = {"<3>", "<4>", "<6>", "<7>"};
constexpr std::size_t kTextBytesMax = 1000;  // of a message or a value

struct LogEvent {
  LogLevel level;
  std::string_view component;
  std::string_view message;
  std::initializer_list<LogField> fields;
  std::uint64_t such_left_out;  // lines of this message before it
  std::uint64_t others_left_out;
};

// "2026-01-31T12:00:00.123Z". Not gmtime_r(), which opens the file of the time zone when it is
// called for the first time: a filtered helper may not.
std::string wall_time() {
  using namespace std::chrono;
  const auto now = floor<milliseconds>(system_clock::now());
  const auto midnight = floor<days>(now);
  const year_month_day date(midnight);
  const hh_mm_ss time(now - midnight);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                static_cast<int>(time.subseconds().count()));
  return text.data();
}

bool needs_quotes(std::string_view value) {
  return value.empty() || value.find(' ') != std::string_view::npos;
}

std::string text_line(const LogEvent& event, bool with_time) {
  std::string line = with_time ? wall_time() + " " : std::string();
  line += log_level_name(event.level);
  line += " ";
  line += event.component;
  line += ": ";
  line += sanitize(event.message, kTextBytesMax);
  for (const LogField& field : event.fields) {
    const bool quoted = needs_quotes(field.value);
    line += " ";
    line += field.key;
    line += quoted ? "=\"" : "=";
    line += sanitize(field.value, kTextBytesMax);
    if (quoted) line += "\"";
  }
  if (event.such_left_out > 0) {
    line += " (before it, " + std::to_string(event.such_left_out) + " such lines were left out)";
  }
  if (event.others_left_out > 0) {
    line += " (before it, " + std::to_string(event.others_left_out) + " lines were left out)";
  }
  return line;
}

// Escaped by the rules of JSON; what is no UTF-8 is replaced.
std::string json_line(const LogEvent& event, bool with_time) {
  nlohmann::ordered_json line;
  if (with_time) line["time"] = wall_time();
  line["level"] = log_level_name(event.level);
  line["component"] = event.component;
  line["message"] = event.message.substr(0, kTextBytesMax);
  for (const LogField& field : event.fields) {
    line["fields"][std::string(field.key)] = field.value.substr(0, kTextBytesMax);
  }
  const std::uint64_t left_out = event.such_left_out + event.others_left_out;
  if (left_out > 0) line["left_out"] = left_out;
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::string_view log_level_name(LogLevel level) noexcept {
  return kLevelNames[static_cast<std::size_t>(level)];
}

std::optional<LogLevel> parse_log_level(std::string_view name) noexcept {
  const auto found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kLevelNames.begin());
}

Log::Log(const Clock& clock, LogLevel level, int descriptor, bool journal, LogFormat format)
    : clock_(clock), level_(level), descriptor_(descriptor), journal_(journal), format_(format) {}

bool Log::stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat info {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &info) != 0) return false;
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) == stream;
}

// UBSan checks the type of an object with system calls that a helper's filter refuses, and then
// takes it for wrong.
__attribute__((no_sanitize("vptr"))) void Log::write(LogLevel level, std::string_view component,
                                                     std::string_view message,
                                                     std::initializer_list<LogField> fields) {
  if (level > this->level()) return;
  const TimeNs now_ns = clock_.now_ns();
  LogBudget& site = sites_[payload_digest(message.data(), message.size()) % kSites];
  if (!site.admit(now_ns, kSiteBurst, kSiteLinesPerSecond) ||
      !all_.admit(now_ns, kBurst, kLinesPerSecond)) {
    suppressed_total_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const LogEvent event{
      level, component, message, fields, site.take_left_out(), all_.take_left_out()};
  std::string line;
  if (journal_) line += kJournalPrefixes[static_cast<std::size_t>(level)];
  line += format_ == LogFormat::json ? json_line(event, !journal_) : text_line(event, !journal_);
  line += "\n";
  // One write per line keeps lines of several threads whole. A reader that is gone is not our loss.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, line.data(), line.size());
}

}  // namespace simm::base
