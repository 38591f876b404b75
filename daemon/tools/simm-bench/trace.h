// A conversation trace: the requests that an inference service got, as far as a cache can see them.
// The format is that of the traces published with Mooncake's FAST'25 paper: JSON lines with
//   timestamp      milliseconds since the start of the trace, not decreasing
//   input_length   tokens of the prompt
//   output_length  tokens generated
//   hash_ids       one id per block of 512 prompt tokens (the last block may be partial); equal ids
//                  are equal blocks behind equal prefixes
// Thread: any; no shared state.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "simm/expected.h"

namespace simm::bench {

inline constexpr std::uint64_t kTraceBlockTokens = 512;
// Longer lines and larger numbers are mistakes, not traces.
inline constexpr std::uint64_t kTraceTokensMax = std::uint64_t{1} << 26;

struct TraceRequest {
  std::uint64_t timestamp_ms = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::vector<std::uint64_t> block_ids;
};

using Trace = std::vector<TraceRequest>;

// Reads a whole trace. An error names file, line, field, value and remedy; an empty trace is one.
Expected<Trace> read_trace(const std::string& path);

// The same from a stream; `name` stands for the file in errors.
Expected<Trace> read_trace(std::istream& stream, const std::string& name);

// Writes what read_trace() reads.
void write_trace(std::ostream& stream, const Trace& trace);

}  // namespace simm::bench
