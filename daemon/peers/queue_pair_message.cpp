#include "daemon/peers/queue_pair_message.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace simm::control {
namespace {

static_assert(std::endian::native == std::endian::little, "structs are copied, not converted");

constexpr std::uint32_t kMagic = 0x50514d53;  // "SMQP"
enum class Kind : std::uint16_t { offer = 1, answer = 2 };

struct Wire {
  std::uint32_t magic;
  std::uint16_t kind;
  std::uint16_t refusal;  // offer: zero
  std::uint8_t gid[16];   // all that follows: zero in a refusal
  std::uint32_t number;
  std::uint32_t first_packet;
  std::uint16_t lid;
  std::uint16_t mtu_bytes;
  std::uint8_t reads_in;
  std::uint8_t is_ethernet;  // 0 or 1
  std::uint8_t place;        // offer: 1 + the place of its rail; 0: not said
  std::uint8_t reserved[17];
};
static_assert(sizeof(Wire) == kQueuePairMessageBytes);
static_assert(offsetof(Wire, gid) == 8 && offsetof(Wire, number) == 24);
static_assert(offsetof(Wire, lid) == 32 && offsetof(Wire, reads_in) == 36);
static_assert(offsetof(Wire, place) == 38 && offsetof(Wire, reserved) == 39);
static_assert(std::has_unique_object_representations_v<Wire>);

constexpr std::uint32_t kNumberMax = (1u << 24) - 1;

QueuePairMessage bytes_of(const Wire& wire) noexcept {
  return std::bit_cast<QueuePairMessage>(wire);
}

Wire wire_of(Kind kind, QueuePairRefusal refusal,
             const transport::QueuePairAddress& address) noexcept {
  Wire wire{};
  wire.magic = kMagic;
  wire.kind = static_cast<std::uint16_t>(kind);
  wire.refusal = static_cast<std::uint16_t>(refusal);
  if (refusal != QueuePairRefusal::none) return wire;
  std::memcpy(wire.gid, address.gid.data(), sizeof wire.gid);
  wire.number = address.number;
  wire.first_packet = address.first_packet;
  wire.lid = address.lid;
  wire.mtu_bytes = address.mtu_bytes;
  wire.reads_in = address.reads_in;
  wire.is_ethernet = address.is_ethernet ? 1 : 0;
  return wire;
}

bool open(std::span<const std::byte> message, Kind kind, Wire& wire) noexcept {
  if (message.size() != sizeof wire) return false;
  std::memcpy(&wire, message.data(), sizeof wire);
  for (const std::uint8_t byte : wire.reserved) {
    if (byte != 0) return false;
  }
  return wire.magic == kMagic && wire.kind == static_cast<std::uint16_t>(kind) &&
         wire.is_ethernet <= 1 && wire.number <= kNumberMax && wire.first_packet <= kNumberMax;
}

transport::QueuePairAddress address_of(const Wire& wire) noexcept {
  transport::QueuePairAddress address;
  std::memcpy(address.gid.data(), wire.gid, sizeof wire.gid);
  address.number = wire.number;
  address.first_packet = wire.first_packet;
  address.lid = wire.lid;
  address.mtu_bytes = wire.mtu_bytes;
  address.reads_in = wire.reads_in;
  address.is_ethernet = wire.is_ethernet != 0;
  return address;
}

}  // namespace

std::string_view refusal_text(QueuePairRefusal refusal) noexcept {
  switch (refusal) {
    case QueuePairRefusal::none:
      return "";
    case QueuePairRefusal::no_rail:
      return "none of the peer's RDMA ports reaches this one";
    case QueuePairRefusal::not_ready:
      return "the peer registers its pool with its RDMA port still";
    case QueuePairRefusal::no_room:
      return "the peer takes no more RDMA connections";
    case QueuePairRefusal::failed:
      return "the peer's RDMA device refused to connect";
    case QueuePairRefusal::not_registered:
      return "the peer could not register its pool with its RDMA port (its simmctl errors says "
             "why)";
  }
  return "unknown";
}

QueuePairMessage encode_offer(const QueuePairOffer& offer) noexcept {
  Wire wire = wire_of(Kind::offer, QueuePairRefusal::none, offer.address);
  if (offer.place) wire.place = static_cast<std::uint8_t>(1 + *offer.place % kRailPlaces);
  return bytes_of(wire);
}

QueuePairMessage encode_answer(const QueuePairAnswer& answer) noexcept {
  return bytes_of(wire_of(Kind::answer, answer.refusal, answer.address));
}

std::optional<QueuePairOffer> decode_offer(std::span<const std::byte> message) noexcept {
  Wire wire;
  if (!open(message, Kind::offer, wire) || wire.refusal != 0 || wire.number == 0) return {};
  QueuePairOffer offer{address_of(wire), {}};
  if (wire.place != 0) offer.place = static_cast<std::uint8_t>(wire.place - 1);
  return offer;
}

std::optional<QueuePairAnswer> decode_answer(std::span<const std::byte> message) noexcept {
  Wire wire;
  if (!open(message, Kind::answer, wire) || wire.refusal > kQueuePairRefusalMax) return {};
  if (wire.place != 0) return {};
  const auto refusal = static_cast<QueuePairRefusal>(wire.refusal);
  const QueuePairAnswer answer{refusal, address_of(wire)};
  if (refusal == QueuePairRefusal::none) {
    if (wire.number == 0) return {};
  } else if (answer.address != transport::QueuePairAddress{}) {
    return {};
  }
  return answer;
}

}  // namespace simm::control
