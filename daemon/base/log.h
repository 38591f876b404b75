// Log: lines for people, on standard error: "<level> <component>: <message> key=value ...". Under
// systemd a line starts with journald's priority prefix ("<6>"). The rate is bounded (a burst of
// kBurst lines, then kLinesPerSecond); what was left out is counted and said. What repeats belongs
// into the ErrorLog, what is frequent into a counter; data agents do not log.
// Thread: any but data agents (a write to standard error can block).
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/clock.h"

namespace simm::base {

enum class LogLevel : std::uint8_t { error = 0, warning = 1, info = 2, debug = 3 };

std::string_view log_level_name(LogLevel level) noexcept;
std::optional<LogLevel> parse_log_level(std::string_view name) noexcept;

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, std::uint64_t v) : key(k), value(std::to_string(v)) {}
  std::string_view key;
  std::string value;  // sanitised when it is written
};

class Log {
public:
  static constexpr std::uint64_t kBurst = 400;
  static constexpr std::uint64_t kLinesPerSecond = 50;

  // Writes to `descriptor`, which it does not own. `journal`: with priority prefixes.
  Log(const Clock& clock, LogLevel level, int descriptor = 2, bool journal = stderr_is_journal());

  void error(std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields = {}) {
    write(LogLevel::error, component, message, fields);
  }
  void warning(std::string_view component, std::string_view message,
               std::initializer_list<LogField> fields = {}) {
    write(LogLevel::warning, component, message, fields);
  }
  void info(std::string_view component, std::string_view message,
            std::initializer_list<LogField> fields = {}) {
    write(LogLevel::info, component, message, fields);
  }
  void debug(std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields = {}) {
    write(LogLevel::debug, component, message, fields);
  }

  [[nodiscard]] LogLevel level() const noexcept { return level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) noexcept { level_.store(level, std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t suppressed() const noexcept {
    return suppressed_total_.load(std::memory_order_relaxed);
  }

  // True when systemd connected standard error to its journal ($JOURNAL_STREAM).
  static bool stderr_is_journal();

private:
  void write(LogLevel level, std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields);
  bool admit();

  const Clock& clock_;
  std::atomic<LogLevel> level_;
  const int descriptor_;
  const bool journal_;
  // When the bucket of the token bucket was last empty, in time: see admit().
  std::atomic<TimeNs> credit_from_ns_;
  std::atomic<std::uint64_t> suppressed_{0};
  std::atomic<std::uint64_t> suppressed_total_{0};
};

}  // namespace simm::base
