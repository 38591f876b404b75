// What two daemons tell each other to connect queue pairs, in the sealed frames of a connection of
// purpose queue_pair: an offer of the requester, an answer of the server. Both are fixed structs of
// 56 bytes; HELLO.md has the table. A frame that decode_*() refuses ends its connection. Thread:
// any (pure functions).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "daemon/transport/rdma/device/queue_pair.h"

namespace simm::control {

// Why there is none. The numbers are part of the wire; only append.
enum class QueuePairRefusal : std::uint16_t {
  none = 0,
  no_rail = 1,         // no port of the server reaches the requester's
  not_ready = 2,       // its pool is not registered with that port yet
  no_room = 3,         // the device, or the data agent, takes no more
  failed = 4,          // the device refused to connect
  not_registered = 5,  // its pool could not be registered with that port
};
inline constexpr std::uint16_t kQueuePairRefusalMax = 5;
[[nodiscard]] std::string_view refusal_text(QueuePairRefusal refusal) noexcept;

struct QueuePairAnswer {
  QueuePairRefusal refusal = QueuePairRefusal::none;
  transport::QueuePairAddress address;  // without a refusal
};

inline constexpr std::size_t kQueuePairMessageBytes = 56;
using QueuePairMessage = std::array<std::byte, kQueuePairMessageBytes>;

// Rails have the same order on most hosts of a cluster. So a server that can not tell which of its
// rails reaches the requester's takes the one of the same place.
struct QueuePairOffer {
  transport::QueuePairAddress address;
  std::optional<std::uint8_t>
      place;  // of the requester's rail; nothing to a peer that knows no places
};
inline constexpr std::size_t kRailPlaces = 255;

[[nodiscard]] QueuePairMessage encode_offer(const QueuePairOffer& offer) noexcept;
[[nodiscard]] QueuePairMessage encode_answer(const QueuePairAnswer& answer) noexcept;
[[nodiscard]] std::optional<QueuePairOffer> decode_offer(
    std::span<const std::byte> message) noexcept;
[[nodiscard]] std::optional<QueuePairAnswer> decode_answer(
    std::span<const std::byte> message) noexcept;

}  // namespace simm::control
