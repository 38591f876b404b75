// ChunkTable: under which keys the NICs of this host know a range of memory. The range is cut into
// chunks of 1 GiB, counted from its first byte, the last one shorter; each chunk may be registered
// with each rail (a port of a NIC that the daemon uses). A cell is one chunk with one rail:
//
//   absent ──► wanted ──► registered      until the whole range goes, or the rail
//     ▲          │ ▲
//     └──────────┘ └──► failed            tried again when it is used after a while
//
// States and keys are written by one registrar thread at a time, the keys before the state. Keys
// that can be read change only when their rail goes, which nobody uses by then. Data agents read
// them without a lock. An agent that finds no keys leaves a wish in the cell, which is a word of
// its own, and rings the bell.
//
// Owned by a RegisteredRange. Thread: find() from any data agent, find_whole() from control; the
// rest registrar threads, under the registrar's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/transport/rdma/device/work_bell.h"

namespace simm::transport {

inline constexpr std::uint64_t kRegisteredChunkBytes = 1ull << 30;
inline constexpr std::uint32_t kRailsMax = 16;

enum class ChunkState : std::uint32_t { absent = 0, wanted, registered, failed };

struct ChunkKeys {
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t remote_address = 0;
};

// The part of a span that lies in one chunk. `keys.remote_address` is that of its first byte.
struct KeyedPart {
  std::uint64_t bytes = 0;
  ChunkKeys keys;
};

enum class KeysFound : std::uint8_t {
  all,       // the parts are filled in
  later,     // not registered yet, and asked for now: use another way meanwhile
  failed,    // it could not be registered: use another way
  too_long,  // the span touches more than two chunks: cut it
};

struct KeyedSpan {
  std::array<KeyedPart, 2> parts{};
  std::uint8_t part_count = 0;
};

class ChunkTable {
public:
  // `bytes` > 0; 1 .. kRailsMax rails. `bell` outlives it. Allocates all that it will ever need.
  ChunkTable(std::uint64_t bytes, std::uint32_t rails, WorkBell& bell);

  // The keys of [offset, offset + bytes), which lies in the range, with a rail. A span of no bytes
  // has no parts.
  KeysFound find(std::uint32_t rail, std::uint64_t offset, std::uint64_t bytes,
                 KeyedSpan& span) noexcept;

  // The same for who may choose another rail: nothing is asked for. `failed` when any of it has.
  [[nodiscard]] KeysFound look(std::uint32_t rail, std::uint64_t offset,
                               std::uint64_t bytes) const noexcept;

  // Of the whole range: all, or what keeps it from that: chunks that have failed, and are asked for
  // by this, or else chunks that come later by themselves.
  [[nodiscard]] KeysFound find_whole(std::uint32_t rail) noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint32_t rails() const noexcept { return rails_; }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::uint64_t chunk_bytes(std::uint32_t chunk) const noexcept;

  [[nodiscard]] ChunkState state(std::uint32_t chunk, std::uint32_t rail) const noexcept;
  // Somebody has asked for a cell since this was called last; then each is_asked() is looked at.
  [[nodiscard]] bool take_wishes() noexcept;
  [[nodiscard]] bool is_asked(std::uint32_t chunk, std::uint32_t rail) const noexcept;
  void forget_wish(std::uint32_t chunk, std::uint32_t rail) noexcept;

  void publish(std::uint32_t chunk, std::uint32_t rail, const ChunkKeys& keys) noexcept;
  // The rail ends: absent, whatever it was; no data agent reads its keys now.
  void withdraw(std::uint32_t chunk, std::uint32_t rail) noexcept;
  // Any other state than registered.
  void set_state(std::uint32_t chunk, std::uint32_t rail, ChunkState state) noexcept;

private:
  struct Cell {
    std::atomic<ChunkState> state{ChunkState::absent};
    std::atomic<bool> asked{false};
    ChunkKeys keys;  // readable when the state is `registered`
  };

  [[nodiscard]] Cell& cell(std::uint32_t chunk, std::uint32_t rail) const noexcept;
  KeysFound find_in(std::uint32_t chunk, std::uint32_t rail, ChunkKeys& keys) noexcept;

  const std::uint64_t bytes_;
  const std::uint32_t rails_;
  const std::uint32_t chunks_;
  WorkBell& bell_;
  const std::unique_ptr<Cell[]> cells_;  // the rails of a chunk lie together
  std::atomic<bool> wishes_{false};
};

}  // namespace simm::transport
