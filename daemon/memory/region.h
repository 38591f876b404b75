// Region: a client's memory as the daemon sees it. Slice: a validated part of one.
//
// A Region is created by the control or registrar thread, is immutable afterwards, and is owned by
// its session's RegionTable. It outlives every operation that names it: the table retires it first
// (new descriptors are refused), and it is unmapped when its session has counted the last operation
// out. So data agents read it without synchronisation and never own it.
// Thread: created on control/registrar; read by any data agent.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simm::memory {

class Copier;
class RegionKeys;
class RegionPages;

enum class RegionKind : std::uint8_t {
  shared = 1,   // memfd made by libclient or handed over by the engine
  adopted = 2,  // existing shared mapping of the client, opened through /proc/<pid>/map_files
  staged = 3,  // the client copies through a shared region; the daemon never makes one of this kind
  foreign = 4,  // private memory of the client, copied by a helper process
  gpu = 5,      // memory of a GPU, copied by the helper process of that GPU
};

// Who can touch the bytes of a region.
enum class Reach : std::uint8_t {
  mapped,  // this process, by its own mapping
  helper,  // a helper process alone, by a Copier
};

struct Region {
  [[nodiscard]] Reach reach() const noexcept {
    return copier == nullptr ? Reach::mapped : Reach::helper;
  }

  std::byte* base = nullptr;  // the daemon's own mapping; null for foreign and gpu
  std::uint64_t length = 0;   // bytes
  // Of byte 0, in the copier's terms. Foreign: where the client sees it. gpu: in the allocation.
  std::uint64_t client_address = 0;
  std::uint64_t id = 0;          // unique in this daemon's life, for logs and the copier
  std::uint64_t session_id = 0;  // whose it is: a fault in it poisons that session
  RegionKind kind = RegionKind::shared;
  bool can_fault = true;         // touching it may raise SIGBUS: only through copy_untrusted()
  std::int16_t numa_node = -1;   // -1: unknown
  std::uint16_t table_slot = 0;  // its place in its session's RegionTable
  Copier* copier = nullptr;      // of what this process can not reach: who copies
  RegionPages* pages = nullptr;  // which pages may be touched; null: all of them
  RegionKeys* keys = nullptr;    // what NICs know of it; null: none does
};

// What an operation reads or writes: made by one factory (RegionTable::slice), which proved that
// [offset, offset + length) lies inside the region. An empty slice (region == nullptr) belongs to
// operations that move no bytes.
struct Slice {
  const Region* region = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  // Of the bytes, if there are any.
  [[nodiscard]] bool is_reached_by(Reach reach) const noexcept {
    return region != nullptr && region->reach() == reach;
  }
};

}  // namespace simm::memory
