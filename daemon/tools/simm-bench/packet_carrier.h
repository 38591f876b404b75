// PacketCarrier: the process in the middle of an emulated network. It takes IP packets out of the
// TUN devices of all hosts, and the line between each two says when they arrive. Then it puts them
// into the device of the host that they are for. NetworkControl is shared with the process that
// shapes the lines and reads the counts.
// Thread: the only one of its process.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "daemon/tools/simm-bench/shaped_line.h"
#include "ipc/fd.h"

namespace simm::bench {

inline constexpr std::size_t kEmulatedHostsMax = 8;

// One direction between two hosts. Each field alone is atomic: a packet may meet half of a new
// shape.
struct LineControl {
  std::atomic<base::TimeNs> delay_ns{0};
  std::atomic<std::uint64_t> bytes_per_s{0};
  std::atomic<std::uint64_t> queue_bytes{1 << 20};
  std::atomic<std::uint32_t> loss_ppm{0};
  std::atomic<std::uint32_t> reorder_ppm{0};
  std::atomic<std::uint32_t> packet_bytes_max{0};
  std::array<std::atomic<std::uint64_t>, kPacketFates> packets{};

  [[nodiscard]] LineShape shape() const noexcept {
    return {delay_ns, bytes_per_s, queue_bytes, loss_ppm, reorder_ppm, packet_bytes_max};
  }
};

struct NetworkControl {
  // By the host that sends, then the one that receives.
  std::array<std::array<LineControl, kEmulatedHostsMax>, kEmulatedHostsMax> ways;
};

class PacketCarrier {
public:
  // A device for each host; their IPv4 addresses follow each other from `first_address`, in the
  // order of this machine. All outlive the carrier.
  PacketCarrier(NetworkControl& control, const std::vector<ipc::UniqueFd>& devices,
                std::uint32_t first_address, std::uint64_t seed);
  [[noreturn]] void run();

private:
  struct Packet {
    base::TimeNs arrives_ns = 0;
    std::uint64_t number = 0;  // packets that arrive at once keep their order
    std::size_t to = 0;
    std::vector<std::byte> bytes;
  };
  struct ArrivesLater {
    bool operator()(const Packet& a, const Packet& b) const noexcept {
      return std::pair(a.arrives_ns, a.number) > std::pair(b.arrives_ns, b.number);
    }
  };

  void wait();
  bool take_from(std::size_t from);
  void deliver();
  [[nodiscard]] std::size_t destination(std::size_t bytes) const;

  NetworkControl& control_;
  const std::vector<ipc::UniqueFd>& devices_;
  const std::uint32_t first_address_;
  std::vector<ShapedLine> lines_;  // from * hosts + to
  std::priority_queue<Packet, std::vector<Packet>, ArrivesLater> under_way_;
  std::vector<std::vector<std::byte>> spare_;
  std::vector<std::byte> packet_;  // that is being looked at
  std::vector<pollfd> polled_;
  std::uint64_t number_ = 0;
};

}  // namespace simm::bench
