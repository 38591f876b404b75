// The trace that calls are part of, so that an engine's request and its pages are one trace. What
// a caller's tracing library says as `traceparent` (W3C Trace Context) goes to the daemon with each
// call, and the daemon's spans have the caller's span as their parent.
//
//   simm::set_trace_parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
//   client->get(items, results);
//   simm::set_trace_parent("");
//
// The daemon decides what it keeps: its configuration (trace.endpoint) says where spans go, and how
// many of a tenant in a second. Without that, and of a daemon of an older release, nothing happens.
// Thread: any; each has its own. An asynchronous batch has that of the thread which started it.
#pragma once

#include "simm/compiler.h"

#include <string_view>

#include "simm/status.h"

namespace simm {

// Of all calls of this thread from now on, whichever the Client. Empty, or one whose `sampled` flag
// is not set: none. invalid_argument: no traceparent, and what was set before stays.
Status set_trace_parent(std::string_view trace_parent) noexcept;

}  // namespace simm
