// ShapedLine: one direction of a network line, as arithmetic: whether a packet that is offered now
// arrives, and when. A packet waits until those before it have left at the line's rate, then
// travels for the delay. Loss and reordering are drawn from a seed.
// Thread: one at a time; no clock of its own.
#pragma once

#include <cstdint>
#include <random>

#include "daemon/base/clock.h"

namespace simm::bench {

struct LineShape {
  base::TimeNs delay_ns = 0;
  std::uint64_t bytes_per_s = 0;        // 0: without limit
  std::uint64_t queue_bytes = 1 << 20;  // that wait for the line; a packet beyond is dropped
  std::uint32_t loss_ppm = 0;           // packets of a million that are lost
  std::uint32_t reorder_ppm = 0;        // that travel twice as long, and 1 ms
  std::uint32_t packet_bytes_max = 0;   // longer ones vanish without a word; 0: none do
};

enum class PacketFate : std::uint8_t { arrives = 0, lost = 1, no_room = 2, too_long = 3 };
inline constexpr std::size_t kPacketFates = 4;

class ShapedLine {
public:
  explicit ShapedLine(std::uint64_t seed) : random_(seed) {}

  // `arrives_ns` is set when the packet arrives.
  PacketFate offer(const LineShape& shape, base::TimeNs now_ns, std::uint64_t bytes,
                   base::TimeNs& arrives_ns);

private:
  [[nodiscard]] bool draws(std::uint32_t ppm);

  std::mt19937_64 random_;
  base::TimeNs free_ns_ = 0;  // when the last packet has left
};

}  // namespace simm::bench
