// The limits of the RDMA transport. What can be chosen is filled from the daemon's configuration at
// start.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/tenant_weights.h"
#include "daemon/transport/rdma/device/queue_pair.h"

namespace simm::transport {

// A longer page is cut into stripes, one for each rail: less is moved over one as soon as the rails
// have found each other.
inline constexpr std::uint64_t kStripeBytesMin = 8 * 1024 * 1024;

// What decides which rail moves some bytes.
struct RailTraits {
  std::uint64_t speed = 0;  // in any unit; 0 counts as 1
  std::int32_t node = -1;   // of NUMA; less than 0: near to all memory
};

struct RdmaRequesterConfig {
  std::uint32_t links_max = 64;
  std::uint32_t credits = 32;  // requests on their way on one link; at most wire::kRdmaSlotsMax
  // Nothing heard for so long while requests are out: the peer is dead.
  base::TimeNs peer_detection_ns = 300 * base::kNsPerMs;
  // An idle link is asked for a life sign so often, so that no request finds out that it is dead.
  base::TimeNs idle_ping_ns = 2 * base::kNsPerSecond;
  // Pages of at most this length travel inside messages, as far as kInlineMessageBytes goes.
  std::uint64_t inline_page_bytes = 4096;
  // Pages above this length are cut into stripes.
  std::uint64_t stripe_bytes_min = kStripeBytesMin;
  std::vector<RailTraits> rails;  // what is not there is as the default says
  base::TenantWeights weights;    // of turns on a link
};

// Of a striped request, what is digested in a turn.
inline constexpr std::uint64_t kStripeDigestBytes = 1024 * 1024;

struct RdmaResponderConfig {
  std::uint32_t links_max = 128;
  std::uint32_t credits = 32;  // at least the requesters'
  // Nothing heard for so long while requests are served: their requester is dead.
  base::TimeNs peer_silence_ns = base::kNsPerSecond;
  // Payload that takes longer than that is too much at a time: a small part of what the requesters
  // wait for a life sign, which comes behind it.
  base::TimeNs payload_time_ns_max = 25 * base::kNsPerMs;
  std::uint64_t inline_page_bytes = 4096;
  std::uint64_t stripe_digest_bytes = kStripeDigestBytes;
  base::TenantWeights weights;  // of turns on a link
};

// Messages are sent in parts, each as long as a receive.
inline constexpr std::uint32_t kPartBufferBytes = 8 * 1024;
inline constexpr std::uint32_t kReceives = 32;     // of one link, at each end
inline constexpr std::uint32_t kSendBuffers = 16;  // of one link, at each end
// Credits that only messages without a body take which give credits back: so both ends can not wait
// for each other.
inline constexpr std::uint32_t kCreditsReserved = 2;
// Requests of so much payload are shared out over several rails: less is moved as soon as the
// messages of a second one are handled.
inline constexpr std::uint64_t kSpreadBytesMin = 1024 * 1024;
// Pages of a request that is striped. One of more pages has enough for every rail as they are.
inline constexpr std::uint32_t kStripedPagesMax = 16;
inline constexpr std::uint64_t kStripeStepBytes = 64 * 1024;  // where a page may be cut
// Striped requests of one responder at a time; more are asked for again, not striped.
inline constexpr std::uint32_t kStripedRequestsMax = 32;
// Payload inside one request or reply. More of it is cheaper where it lies: a second part costs two
// copies and a receive.
inline constexpr std::uint32_t kInlineMessageBytes = 8 * 1024;

// Works on one queue pair that have not ended.
inline constexpr std::uint32_t kWorksMax = 256;
// The end of a message is reported by the next work that has a report: every move, and one in so
// many messages.
inline constexpr std::uint32_t kSendsPerReport = 8;
static_assert(kSendsPerReport <= kSendBuffers);
// Pages are moved in pieces, so that a short page waits for no more than a piece of each other one.
// Pieces are shorter while a link's window is (rdma_window.h).
inline constexpr std::uint32_t kPieceBytes = 1024 * 1024;
inline constexpr std::uint32_t kPieceBytesMin = 64 * 1024;
// A tenant with the weight 1 has so much in one round of a link's turns.
inline constexpr std::uint32_t kTurnQuantumBytes = kPieceBytesMin;
// Payload on its way on one link: at most more than any link needs to be busy while an answer comes
// back (400 Gbit/s for 80 us); at first what such a one carries in 5 us; and at least a piece.
inline constexpr std::uint64_t kBytesPostedMax = 4 * 1024 * 1024;
inline constexpr std::uint64_t kWindowBytesStart = 256 * 1024;
inline constexpr std::uint64_t kWindowBytesMin = kPieceBytesMin;
// What is digested at a time: some 10 us.
inline constexpr std::uint64_t kDigestBytes = 256 * 1024;
// Steps of one link in one turn.
inline constexpr int kStepsPerTurn = 64;

[[nodiscard]] constexpr QueuePairConfig queue_pair_config(bool is_requester) noexcept {
  QueuePairConfig config;
  config.sends_max = kWorksMax;
  config.receives_max = kReceives;
  config.is_requester = is_requester;
  return config;
}

}  // namespace simm::transport
