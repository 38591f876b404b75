// BreakableMover: the production mover, with a hole in the region where copies fail.
#pragma once

#include <algorithm>

#include "daemon/transport/region_mover.h"

namespace conformance {

class BreakableMover final : public simm::transport::Mover {
public:
  void break_at(std::uint64_t offset, std::uint64_t length) {
    offset_ = offset;
    length_ = length;
  }
  simm::transport::MoveProgress step(simm::transport::Move& move,
                                     std::uint64_t bytes_max) noexcept override {
    const std::uint64_t from = move.slice.offset + move.moved;
    const std::uint64_t bytes = std::min(bytes_max, move.length - move.moved);
    if (from < offset_ + length_ && offset_ < from + bytes) {
      move.status = simm::Status::transfer_failed;
      return simm::transport::MoveProgress::done;
    }
    return mover_.step(move, bytes_max);
  }
  bool stop(simm::transport::Move& move) noexcept override { return mover_.stop(move); }
  int do_work() noexcept override { return mover_.do_work(); }

private:
  simm::transport::RegionMover mover_;
  std::uint64_t offset_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace conformance
