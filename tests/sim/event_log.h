// EventLog: what happened, in words, for the person who looks at a failing seed. Silent (and free)
// unless asked for: a failing seed is simply run again with the log on.
// Thread: the one simulated thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "tests/sim/event_loop.h"

namespace simm::sim {

enum class LogMode : std::uint8_t { off, tail, everything };

class EventLog {
public:
  EventLog(const EventLoop& loop, LogMode mode) : loop_(loop), mode_(mode) {}

  [[nodiscard]] bool on() const noexcept { return mode_ != LogMode::off; }

  // printf-like; call only when on(), so that arguments cost nothing otherwise.
  void line(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // Prints the last lines to stderr (mode tail).
  void print_tail() const;

private:
  static constexpr std::size_t kTailLines = 120;
  const EventLoop& loop_;
  LogMode mode_;
  std::deque<std::string> tail_;
};

}  // namespace simm::sim
