// Log: lines on standard error: "<time> <level> <component>: <message> key=value ...", or an object
// of JSON each. Where standard error is the journal, its priority prefix ("<6>") stands in place of
// the time, which it knows itself (sd-daemon(3)). The rate is bounded twice. Each message has a
// burst of kSiteBurst lines, then kSiteLinesPerSecond, so one that floods leaves room for the
// others; all together have a rate as well. What was left out is counted and said. What repeats
// belongs into the ErrorLog, what is frequent into a counter; data agents do not log. Thread: any
// but data agents (a write to standard error can block).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/clock.h"
#include "daemon/base/log_budget.h"

namespace simm::base {

enum class LogLevel : std::uint8_t { error = 0, warning = 1, info = 2, debug = 3 };
inline constexpr std::string_view kLogLevelNames = "error|warning|info|debug";
enum class LogFormat : std::uint8_t { text = 0, json = 1 };
inline constexpr std::string_view kLogFormatNames = "text|json";

std::string_view log_level_name(LogLevel level) noexcept;
std::optional<LogLevel> parse_log_level(std::string_view name) noexcept;

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, std::uint64_t v) : key(k), value(std::to_string(v)) {}
  std::string_view key;
  std::string value;  // sanitised when it is written
};

// "key=value", or "key="a value""; sanitised.
std::string field_text(const LogField& field);

class Log {
public:
  static constexpr std::uint64_t kBurst = 400;
  static constexpr std::uint64_t kLinesPerSecond = 50;
  static constexpr std::uint64_t kSiteBurst = 100;
  static constexpr std::uint64_t kSiteLinesPerSecond = 10;

  // Writes to `descriptor`, which it does not own. `journal`: with priority prefixes.
  Log(const Clock& clock, LogLevel level, int descriptor = 2, bool journal = stderr_is_journal(),
      LogFormat format = LogFormat::text);

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

  void write(LogLevel level, std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields);

private:
  // Messages are told apart by a hash, so two of a great many may share a budget.
  static constexpr std::size_t kSites = 128;

  const Clock& clock_;
  std::atomic<LogLevel> level_;
  const int descriptor_;
  const bool journal_;
  const LogFormat format_;
  std::array<LogBudget, kSites> sites_;
  LogBudget all_;
  std::atomic<std::uint64_t> suppressed_total_{0};
};

}  // namespace simm::base
