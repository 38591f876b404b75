// SteppedChild: a forked child that runs one action, is single-stepped by the parent, and is killed
// (SIGKILL) after a given number of instructions, as if it had died there by itself.
//
// Uses ptrace, which a sandbox may forbid: can_step() says.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

namespace stepped_child {

bool can_step();

struct Run {
  std::uint64_t steps = 0;  // instructions executed
  bool finished = false;    // the action was over before it was killed
};

// Runs `action` in a child that stops before it, steps at most `steps_max` instructions, kills the
// child and reaps it. `in_parent` runs once after the fork (to close the parent's copy of what only
// the child may hold).
Run run_and_kill(const std::function<void()>& action, std::uint64_t steps_max,
                 const std::function<void()>& in_parent);

}  // namespace stepped_child
