// Makes a conversation trace out of a seed: the same seed and size, the same trace on every
// machine.
//
// The model, fitted to the trace of a real conversation service (TRACE.md has both side by side):
// every request begins with the same block (the system prompt); new conversations arrive in ticks
// of three seconds (Poisson); a conversation goes on with a probability that grows with its turns,
// after a think time drawn from the observed quantiles. A turn either continues the dialogue (all
// whole blocks of the previous prompt, then its answer and a new message) or keeps only a leading
// part of the previous prompt and asks something else about it (a shared document or template).
// Thread: any; no shared state.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/trace.h"

namespace simm::bench {

struct TraceGeneratorOptions {
  std::uint64_t seed = 1;
  std::uint64_t requests = 12'031;  // as many as the real one has
};

Trace generate_trace(const TraceGeneratorOptions& options);

}  // namespace simm::bench
