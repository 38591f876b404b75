// The limits of the TCP transport. Filled from the daemon's configuration at start.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/tenant_weights.h"

namespace simm::transport {

struct TcpRequesterConfig {
  std::uint32_t links_max = 64;
  std::uint32_t credits = 32;  // requests on their way on one link; at most wire::kSlotsMax
  // Nothing heard for so long while requests are out: the peer is dead.
  base::TimeNs peer_detection_ns = 300 * base::kNsPerMs;
  // An idle link is asked for a life sign so often. Without it a link to a stopped process would
  // look alive for ever.
  base::TimeNs idle_ping_ns = 10 * base::kNsPerSecond;
  // A put's pages of at most this length travel inside the request; others when they are pulled.
  std::uint64_t inline_page_bytes = 16 * 1024;
  base::TenantWeights weights;  // of turns on a link
  // A responder has the same io, and polls it in its turns: without links the requester need not.
  bool is_io_polled = false;
};

struct TcpResponderConfig {
  std::uint32_t links_max = 128;
  std::uint32_t credits = 32;  // at least the requesters'
  // Nothing heard for so long while requests are served: their requester is dead. Requesters ping
  // three times within their own detection time.
  base::TimeNs peer_silence_ns = base::kNsPerSecond;
  base::TenantWeights weights;  // of turns on a link
};

// Payload is moved in chunks that stay in the second-level cache between the copy, the digest and
// the kernel's copy; shorter than memory::kStreamBytesMin, so that copies do not go around it.
inline constexpr std::uint32_t kChunkBytes = 112 * 1024;
// Payload of puts that is queued on one link and not taken by the kernel yet.
inline constexpr std::uint64_t kQueuedBytesMax = 4 * kChunkBytes;
// The same of gets, and what the kernel has taken of them and can not send yet. Both are sent in
// order, and turns of tenants decide only about what comes behind them.
inline constexpr std::uint64_t kQueuedAnswerBytesMax = 224 * 1024;
inline constexpr int kUnsentAnswerBytesMax = 128 * 1024;
// Shorter payloads are copied into the queue, behind their headers.
inline constexpr std::uint32_t kCopiedBytesMax = 8 * 1024;
// Detection times after which a silent link ends whose peer is heard over other links.
inline constexpr int kSilentLinkTimes = 3;
// Detection times for which acknowledged payload keeps a silent link, at most.
inline constexpr int kAcknowledgedLifeTimes = 10;
// Fewer acknowledged bytes are pings, which a stopped process's kernel takes as well.
inline constexpr std::uint64_t kAcknowledgedLifeBytes = 4096;
// What a stop waits for ends at the next look at the kernel, or (foreign copies) with the death of
// a process.
inline constexpr int kStopTurns = 100'000;
// Receives and sends that one do_work() makes on a link before it lets others run; the round in
// which so many bytes have moved is the last one. Who has come with the first of them waits no
// longer.
inline constexpr int kRoundsPerTurn = 4;
inline constexpr std::uint64_t kTurnBytesMax = 128 * 1024;

}  // namespace simm::transport
