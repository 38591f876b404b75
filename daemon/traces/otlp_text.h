// What a receiver of OpenTelemetry traces is told of operations: an ExportTraceServiceRequest of
// OTLP/HTTP in its JSON encoding (opentelemetry-proto 1.x). An operation is a span of the kind
// SERVER, and each of its stages that took time is a span inside. The owner of pages, in another
// daemon, tells of its requests alike: spans inside the operation's. Keys do not appear.
// Thread: any, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/base/trace_export.h"

namespace simm::traces {

// One operation, with what its numbers mean.
struct ToldTrace {
  base::ExportedTrace trace;
  std::string tenant;
  std::string peer;  // whom its first message went to; "self": this daemon
};

// `wall_offset_ns`: what to add to a time of the daemon's clock to have the time since 1970.
std::string otlp_text(std::span<const ToldTrace> told, const std::string& daemon,
                      std::uint64_t wall_offset_ns);

// How many spans of the request its receiver did not take, as its answer says; 0: all were taken.
std::uint64_t rejected_spans(const std::string& answer);

}  // namespace simm::traces
