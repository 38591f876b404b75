// RdmaWindow: how much payload a link may have on its way. What is said on the same queue pair, and
// over the same port, waits behind that payload, and life signs are said there: so it follows the
// time in which payload gets through. A link begins with kWindowBytesStart. Payload that took
// longer than the bound, other links' before it included, halves the window, once for what was
// posted until then; payload that took less than half of it lets the window grow by its own length,
// if the window was in use. A fast rail has kBytesPostedMax after four times its delay, a slow one
// settles between the two times, with any number of links on it. Owned by a RdmaChannel. Thread:
// its data agent.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/transport/rdma/rdma_config.h"

namespace simm::transport {

class RdmaWindow {
public:
  // A new link. `time_ns_max`: the bound.
  void open(base::TimeNs time_ns_max) noexcept {
    *this = {};
    time_ns_max_ = time_ns_max;
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  // True: another piece may be posted behind `bytes_out`.
  [[nodiscard]] bool is_open(std::uint64_t bytes_out) const noexcept { return bytes_out < bytes_; }
  // How long that piece may be. With pieces of a quarter, the device always has some to do.
  [[nodiscard]] std::uint32_t piece_bytes() const noexcept {
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(bytes_ / 4, kPieceBytesMin, kPieceBytes));
  }

  // A piece is posted behind `bytes_out`. What was learnt long ago says nothing about a rail that
  // others may use by now.
  void on_posted(std::uint64_t bytes_out, base::TimeNs now_ns) noexcept {
    if (bytes_out > 0 || now_ns < ended_ns_ + kIdleBounds * time_ns_max_) return;
    bytes_ = std::min(bytes_, kWindowBytesStart);
  }
  // A piece has ended that was posted then; `bytes_out`: with it.
  void on_ended(std::uint32_t piece_bytes, std::uint64_t bytes_out, base::TimeNs posted_ns,
                base::TimeNs now_ns) noexcept {
    ended_ns_ = now_ns;
    const base::TimeNs took_ns = now_ns - posted_ns;
    if (took_ns > time_ns_max_) {
      if (posted_ns < narrowed_ns_) return;  // posted when the window was still the wider one
      narrowed_ns_ = now_ns;
      bytes_ = std::max(bytes_ / 2, kWindowBytesMin);
    } else if (took_ns < time_ns_max_ / 2 && bytes_out >= bytes_ / 2) {
      bytes_ = std::min(bytes_ + piece_bytes, kBytesPostedMax);
    }
  }

private:
  static constexpr base::TimeNs kIdleBounds = 4;

  std::uint64_t bytes_ = kWindowBytesStart;
  base::TimeNs time_ns_max_ = 0;
  base::TimeNs ended_ns_ = 0;     // when a piece has ended last
  base::TimeNs narrowed_ns_ = 0;  // when it became narrower last
};

}  // namespace simm::transport
