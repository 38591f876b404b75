#include "daemon/tools/simm-bench/shaped_line.h"

#include <doctest/doctest.h>

namespace simm::bench::shaped_line_test {

constexpr base::TimeNs kMs = base::kNsPerMs;

TEST_CASE("a shaped line: packets wait for those before them, and then travel") {
  ShapedLine line(1);
  const LineShape shape{5 * kMs, 1'000'000};  // 1,000 bytes take 1 ms
  base::TimeNs arrives_ns = 0;
  for (base::TimeNs i = 1; i <= 3; ++i) {
    REQUIRE(line.offer(shape, 100 * kMs, 1'000, arrives_ns) == PacketFate::arrives);
    CHECK(arrives_ns == (105 + i) * kMs);
  }
  // The line has been free for long.
  REQUIRE(line.offer(shape, 200 * kMs, 1'000, arrives_ns) == PacketFate::arrives);
  CHECK(arrives_ns == 206 * kMs);
  REQUIRE(line.offer({7 * kMs}, 300 * kMs, 1'000'000'000, arrives_ns) == PacketFate::arrives);
  CHECK(arrives_ns == 307 * kMs);
}

TEST_CASE("a shaped line: what finds the queue full is dropped, and takes no time of the line") {
  ShapedLine line(1);
  LineShape shape{0, 1'000'000};
  shape.queue_bytes = 3'000;
  base::TimeNs arrives_ns = 0;
  int arrived = 0;
  for (int i = 0; i < 10; ++i) {
    if (line.offer(shape, 0, 1'000, arrives_ns) == PacketFate::arrives) ++arrived;
  }
  CHECK(arrived == 4);  // three wait, one is on the line
  CHECK(arrives_ns == 4 * kMs);
  CHECK(line.offer(shape, 2 * kMs, 1'000, arrives_ns) == PacketFate::arrives);
  CHECK(arrives_ns == 5 * kMs);
}

TEST_CASE("a shaped line: loses and reorders as many as it says, and the long ones") {
  ShapedLine line(7);
  LineShape shape{kMs};
  shape.loss_ppm = 100'000;
  shape.reorder_ppm = 200'000;
  shape.packet_bytes_max = 1'400;
  base::TimeNs arrives_ns = 0;
  int lost = 0;
  int late = 0;
  constexpr int kPackets = 100'000;
  for (int i = 0; i < kPackets; ++i) {
    const PacketFate fate = line.offer(shape, 0, 1'400, arrives_ns);
    if (fate == PacketFate::lost) ++lost;
    if (fate == PacketFate::arrives && arrives_ns == 3 * kMs) ++late;
  }
  CHECK(lost > kPackets / 10 * 9 / 10);
  CHECK(lost < kPackets / 10 * 11 / 10);
  CHECK(late > (kPackets - lost) / 5 * 9 / 10);
  CHECK(late < (kPackets - lost) / 5 * 11 / 10);
  CHECK(line.offer(shape, 0, 1'401, arrives_ns) == PacketFate::too_long);
}

}  // namespace simm::bench::shaped_line_test
