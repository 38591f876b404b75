#include "daemon/base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/base/choice.h"
#include "daemon/base/hash.h"
#include "daemon/base/sanitize.h"
#include "daemon/base/wall_time.h"

namespace simm::base {
namespace {

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

std::string text_line(const LogEvent& event, bool with_time) {
  std::string line = with_time ? wall_time_text(wall_time_ns()) + " " : std::string();
  line += log_level_name(event.level);
  line += " ";
  line += event.component;
  line += ": ";
  line += sanitize(event.message, kTextBytesMax);
  for (const LogField& field : event.fields) {
    line += " ";
    line += field_text(field);
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
  if (with_time) line["time"] = wall_time_text(wall_time_ns());
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

std::string field_text(const LogField& field) {
  const bool quoted = field.value.empty() || field.value.find(' ') != std::string::npos;
  std::string text(field.key);
  text += quoted ? "=\"" : "=";
  text += sanitize(field.value, kTextBytesMax);
  if (quoted) text += "\"";
  return text;
}

std::string_view log_level_name(LogLevel level) noexcept {
  return choice_name(kLogLevelNames, level);
}

std::optional<LogLevel> parse_log_level(std::string_view name) noexcept {
  const auto found = find_choice(kLogLevelNames, name);
  return found ? std::optional(static_cast<LogLevel>(*found)) : std::nullopt;
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
