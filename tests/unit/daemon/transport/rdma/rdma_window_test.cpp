// How the window of a link follows the time that payload takes.
#include "daemon/transport/rdma/rdma_window.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <deque>

namespace rdma_window_test {

using namespace simm;
using namespace simm::transport;

constexpr base::TimeNs kBoundNs = 24 * base::kNsPerMs;

// A link that always has more to move, over a rail of that speed with that delay.
struct Rail {
  Rail(double bytes_per_ns_in, base::TimeNs delay_ns_in)
      : bytes_per_ns(bytes_per_ns_in), delay_ns(delay_ns_in) {
    window.open(kBoundNs);
  }
  void post() {
    while (window.is_open(bytes_out)) {
      window.on_posted(bytes_out, now_ns);
      const std::uint32_t bytes = window.piece_bytes();
      free_ns = std::max(free_ns, now_ns) +
                static_cast<base::TimeNs>(static_cast<double>(bytes) / bytes_per_ns);
      posted.push_back({bytes, now_ns, free_ns + delay_ns});
      bytes_out += bytes;
    }
  }
  // The oldest piece ends.
  void end() {
    const Piece piece = posted.front();
    posted.pop_front();
    now_ns = std::max(now_ns, piece.end_ns);
    longest_ns = std::max(longest_ns, now_ns - piece.posted_ns);
    window.on_ended(piece.bytes, bytes_out, piece.posted_ns, now_ns);
    bytes_out -= piece.bytes;
    moved += piece.bytes;
  }
  void run(base::TimeNs for_ns) {
    const base::TimeNs end_ns = now_ns + for_ns;
    for (post(); now_ns < end_ns; post()) end();
  }
  struct Piece {
    std::uint32_t bytes;
    base::TimeNs posted_ns;
    base::TimeNs end_ns;
  };
  const double bytes_per_ns;
  const base::TimeNs delay_ns;
  RdmaWindow window;
  std::deque<Piece> posted;
  std::uint64_t bytes_out = 0;
  std::uint64_t moved = 0;
  base::TimeNs now_ns = base::kNsPerSecond;
  base::TimeNs free_ns = 0;
  base::TimeNs longest_ns = 0;
};

TEST_CASE("rdma window: a fast rail has all of it after a few delays, and keeps it") {
  Rail rail(50.0, 10'000);  // 400 Gbit/s, 10 us
  rail.run(150'000);
  CHECK(rail.window.bytes() == kBytesPostedMax);
  CHECK(rail.window.piece_bytes() == kPieceBytes);
  rail.run(100 * base::kNsPerMs);
  CHECK(rail.window.bytes() == kBytesPostedMax);
  // And nothing of the rail was wasted, but for the first moment.
  CHECK(static_cast<double>(rail.moved) > 0.99 * 50.0 * 100e6);
}

TEST_CASE("rdma window: on a slow rail payload takes as long as the bound, and the rail is busy") {
  for (const double bytes_per_ns : {0.005, 0.025, 0.125}) {
    CAPTURE(bytes_per_ns);
    Rail rail(bytes_per_ns, base::kNsPerMs);
    rail.run(base::kNsPerSecond);
    rail.longest_ns = 0;
    rail.moved = 0;
    rail.run(2 * base::kNsPerSecond);
    CHECK(rail.longest_ns < kBoundNs * 5 / 4);
    CHECK(static_cast<double>(rail.moved) > 0.9 * bytes_per_ns * 2e9);
  }
}

TEST_CASE("rdma window: a rail that becomes slow is noticed once for all that was on it") {
  RdmaWindow window;
  window.open(kBoundNs);
  base::TimeNs now_ns = base::kNsPerSecond;
  for (int i = 0; i < 100; ++i) window.on_ended(kPieceBytes, kBytesPostedMax, now_ns, now_ns + 1);
  REQUIRE(window.bytes() == kBytesPostedMax);
  const base::TimeNs posted_ns = now_ns;
  now_ns += 2 * kBoundNs;
  for (int i = 0; i < 4; ++i) {
    window.on_ended(kPieceBytes, kBytesPostedMax, posted_ns, now_ns);
    now_ns += base::kNsPerMs;
    CHECK(window.bytes() == kBytesPostedMax / 2);
  }
  // What was posted behind that counts again, down to the least there is.
  for (int i = 0; i < 20; ++i) {
    window.on_ended(kPieceBytes, kBytesPostedMax, now_ns, now_ns + 2 * kBoundNs);
    now_ns += 2 * kBoundNs + 1;
  }
  CHECK(window.bytes() == kWindowBytesMin);
  CHECK(window.piece_bytes() == kPieceBytesMin);
  CHECK(window.is_open(0));
}

TEST_CASE("rdma window: who asks for little learns nothing of what the rail can carry") {
  RdmaWindow window;
  window.open(kBoundNs);
  for (base::TimeNs i = 1; i < 1000; ++i) {
    window.on_posted(0, i * 1000);
    window.on_ended(4096, 4096, i * 1000, i * 1000 + 10);
  }
  CHECK(window.bytes() == kWindowBytesStart);
}

TEST_CASE("rdma window: a link that was idle for long begins anew") {
  Rail rail(50.0, 10'000);
  rail.run(base::kNsPerMs);
  while (!rail.posted.empty()) rail.end();
  rail.window.on_posted(0, rail.now_ns + kBoundNs);
  CHECK(rail.window.bytes() == kBytesPostedMax);
  rail.window.on_posted(0, rail.now_ns + 4 * kBoundNs);
  CHECK(rail.window.bytes() == kWindowBytesStart);
}

}  // namespace rdma_window_test
