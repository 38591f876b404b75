// Report: the first promise that was broken in a run. Whoever sees one says so here; the run ends.
// Thread: the one simulated thread.
#pragma once

#include <string>

#include "tests/sim/event_loop.h"

namespace simm::sim {

class Report {
public:
  explicit Report(EventLoop& loop) : loop_(loop) {}

  // `promise` is "P1" .. "P8", "seam" (a rule of transport.h or operation.h) or "live" (the cluster
  // does not recover). printf-like. Only the first one is kept; it stops the loop.
  void violation(const char* promise, const char* format, ...)
      __attribute__((format(printf, 3, 4)));

  [[nodiscard]] bool clean() const noexcept { return promise_.empty(); }
  [[nodiscard]] const std::string& promise() const noexcept { return promise_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
  EventLoop& loop_;
  std::string promise_;
  std::string text_;
};

}  // namespace simm::sim
