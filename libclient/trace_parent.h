// TraceParent: what simm::set_trace_parent() was given in this thread. Thread: any; each has its
// own.
#pragma once

#include <atomic>

#include "ipc/layout.h"

namespace simm::detail {

struct TraceParent {
  bool is_set = false;
  ipc::TraceContext context{};
};

extern constinit thread_local TraceParent trace_parent;
// Some thread has named one. Most processes never do, and look at no variable of the thread.
extern constinit std::atomic<bool> any_trace_parent;

}  // namespace simm::detail
