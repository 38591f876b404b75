// TurnClock: the time at which an agent's turn began. Reading the clock of the kernel costs about
// as much as all else that a small request needs at one stop of its way. So an agent's parts share
// one reading. Behind by at most what the turn has taken so far.
// Thread: the agent's (made on another one before it starts).
#pragma once

#include "daemon/base/clock.h"

namespace simm::base {

class TurnClock final : public Clock {
public:
  explicit TurnClock(const Clock& source) noexcept : source_(source), now_ns_(source.now_ns()) {}

  // At the start of a turn, and behind a part of it that takes long.
  void refresh() noexcept { now_ns_ = source_.now_ns(); }
  TimeNs now_ns() const noexcept override { return now_ns_; }
  TimeNs fresh_ns() const noexcept override { return source_.now_ns(); }

private:
  const Clock& source_;
  TimeNs now_ns_;
};

}  // namespace simm::base
