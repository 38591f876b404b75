#include "daemon/base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "daemon/base/sanitize.h"

namespace simm::base {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warning", "info", "debug"};
constexpr std::array<std::string_view, 4> kJournalPrefixes = {"<3>", "<4>", "<6>", "<7>"};
constexpr TimeNs kNsPerLine = kNsPerSecond / Log::kLinesPerSecond;

bool needs_quotes(std::string_view value) {
  return value.empty() || value.find(' ') != std::string_view::npos;
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

Log::Log(const Clock& clock, LogLevel level, int descriptor, bool journal)
    : clock_(clock),
      level_(level),
      descriptor_(descriptor),
      journal_(journal),
      credit_from_ns_(0) {}

bool Log::stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat info {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &info) != 0) return false;
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) == stream;
}

// A token bucket in one word: `credit_from_ns_` is the time at which the bucket was empty, each
// line moves it kNsPerLine ahead, and it never lies more than a burst behind now. UBSan checks the
// type of an object with system calls that a helper's filter refuses, and then takes it for wrong.
__attribute__((no_sanitize("vptr"))) bool Log::admit() {
  const TimeNs now = clock_.now_ns() + kBurst * kNsPerLine;  // so that subtraction stays positive
  TimeNs from = credit_from_ns_.load(std::memory_order_relaxed);
  while (true) {
    const TimeNs start = std::max(from, now - kBurst * kNsPerLine);
    if (now - start < kNsPerLine) return false;
    if (credit_from_ns_.compare_exchange_weak(from, start + kNsPerLine,
                                              std::memory_order_relaxed)) {
      return true;
    }
  }
}

void Log::write(LogLevel level, std::string_view component, std::string_view message,
                std::initializer_list<LogField> fields) {
  if (level > this->level()) return;
  if (!admit()) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    suppressed_total_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::string line;
  if (journal_) line += kJournalPrefixes[static_cast<std::size_t>(level)];
  line += log_level_name(level);
  line += " ";
  line += component;
  line += ": ";
  line += sanitize(message, 1000);
  for (const LogField& field : fields) {
    const bool quoted = needs_quotes(field.value);
    line += " ";
    line += field.key;
    line += quoted ? "=\"" : "=";
    line += sanitize(field.value, 1000);
    if (quoted) line += "\"";
  }
  const std::uint64_t left_out = suppressed_.exchange(0, std::memory_order_relaxed);
  if (left_out > 0) line += " (before it, " + std::to_string(left_out) + " lines were left out)";
  line += "\n";
  // One write per line keeps lines of several threads whole. A reader that is gone is not our loss.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, line.data(), line.size());
}

}  // namespace simm::base
