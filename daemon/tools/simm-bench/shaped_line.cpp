#include "daemon/tools/simm-bench/shaped_line.h"

#include <algorithm>

namespace simm::bench {

bool ShapedLine::draws(std::uint32_t ppm) {
  constexpr std::uint64_t kMillion = 1'000'000;
  return ppm > 0 && random_() % kMillion < ppm;
}

PacketFate ShapedLine::offer(const LineShape& shape, base::TimeNs now_ns, std::uint64_t bytes,
                             base::TimeNs& arrives_ns) {
  if (shape.packet_bytes_max > 0 && bytes > shape.packet_bytes_max) return PacketFate::too_long;
  if (shape.bytes_per_s == 0) {
    free_ns_ = now_ns;
  } else {
    const auto ns_of = [&](std::uint64_t count) {
      return static_cast<base::TimeNs>(static_cast<double>(count) * 1e9 /
                                       static_cast<double>(shape.bytes_per_s));
    };
    const base::TimeNs begins_ns = std::max(free_ns_, now_ns);
    if (begins_ns - now_ns > ns_of(shape.queue_bytes)) return PacketFate::no_room;
    free_ns_ = begins_ns + ns_of(bytes);
  }
  // Drawn behind the queue: what is lost on the way took its time on the line.
  if (draws(shape.loss_ppm)) return PacketFate::lost;
  arrives_ns = free_ns_ + shape.delay_ns;
  if (draws(shape.reorder_ppm)) arrives_ns += shape.delay_ns + base::kNsPerMs;
  return PacketFate::arrives;
}

}  // namespace simm::bench
