// PieceSlot: the state of one piece, in memory that the daemon shares with the process that copies.
//
//   free -> (an agent claims it) claimed -> (posted; the other process works) -> ok or failed
//   -> (the agent takes the result) free
//
// Thread: the agent that has claimed it; settle(): the other process.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/memory/helper/copier.h"

namespace simm::memory {

enum class PieceSlotState : std::uint32_t { free = 0, claimed = 1, ok = 2, failed = 3 };

struct alignas(64) PieceSlot {
  std::atomic<std::uint32_t> state;

  // False: somebody else has it.
  bool claim() noexcept {
    auto expected = static_cast<std::uint32_t>(PieceSlotState::free);
    return state.compare_exchange_strong(expected,
                                         static_cast<std::uint32_t>(PieceSlotState::claimed));
  }
  void settle(PieceSlotState outcome) noexcept {
    state.store(static_cast<std::uint32_t>(outcome), std::memory_order_release);
  }
  void release() noexcept { settle(PieceSlotState::free); }
  // Nobody has it. Thread: any; what who had it has written is visible then.
  [[nodiscard]] bool is_free() const noexcept {
    return state.load(std::memory_order_acquire) ==
           static_cast<std::uint32_t>(PieceSlotState::free);
  }
  // The other process has not ended the piece. Thread: any.
  [[nodiscard]] bool is_under_way() const noexcept {
    return state.load(std::memory_order_relaxed) ==
           static_cast<std::uint32_t>(PieceSlotState::claimed);
  }

  // Of a claimed slot. `is_alive`: the other process, asked before this: what a dead one has
  // written before its death is visible then. Whoever sees anything but pending releases the slot.
  [[nodiscard]] PieceState look(bool is_alive) const noexcept {
    switch (static_cast<PieceSlotState>(state.load(std::memory_order_acquire))) {
      case PieceSlotState::claimed:
        return is_alive ? PieceState::pending : PieceState::lost;
      case PieceSlotState::ok:
        return PieceState::ok;
      default:
        return PieceState::failed;
    }
  }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace simm::memory
