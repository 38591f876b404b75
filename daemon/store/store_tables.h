// StoreTables: the tables of one store that end with its process, carved out of one mapping.
// Thread: whichever makes the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "daemon/store/eviction/record.h"
#include "daemon/store/space/extent_allocator.h"
#include "daemon/store/space/hash_index.h"
#include "daemon/store/space/hole_window.h"
#include "daemon/store/space/table.h"

namespace simm::store {

struct StoreTables {
  // Hands out aligned parts of one range.
  class Carver {
  public:
    explicit Carver(std::byte* memory) noexcept : memory_(memory) {}

    // The first memory page of each part is there from the start: the kernel clears a huge page for
    // milliseconds on some hosts, and the first put would wait for one of each part.
    void* take(std::uint64_t bytes) noexcept {
      if (bytes > 0) *memory_ = std::byte{0};
      // SAFETY: bytes_for() counted every part.
      return std::exchange(memory_, memory_ + pages(bytes));
    }

  private:
    std::byte* memory_;
  };

  // `memory`: bytes_for(objects) zeroed bytes from a page boundary on, which outlive the tables.
  StoreTables(std::byte* memory, std::uint32_t objects) noexcept
      : carver(memory),
        index(carver.take(HashIndex::bytes_for(objects)), objects),
        group_index(carver.take(HashIndex::bytes_for(objects)), objects),
        groups(carver.take(Table<Group>::bytes_for(objects)), objects),
        blocks(carver.take(Table<PackedBlock>::bytes_for(blocks_for(objects))),
               blocks_for(objects)) {}

  static std::uint64_t bytes_for(std::uint32_t objects) noexcept {
    return 2 * pages(HashIndex::bytes_for(objects)) + pages(Table<Group>::bytes_for(objects)) +
           pages(Table<PackedBlock>::bytes_for(blocks_for(objects)));
  }
  // Parts do not share pages.
  static std::uint64_t pages(std::uint64_t bytes) noexcept {
    constexpr std::uint64_t kPage = 4096;
    return (bytes + kPage - 1) / kPage * kPage;
  }
  // Of the objects, and of what a job holds: each block of its window, or a new place for it. And
  // of the ground, and a place for who moves out of it.
  static std::uint32_t blocks_for(std::uint32_t objects) noexcept {
    return ExtentAllocator::blocks_for(objects + HoleWindow::kBlocksMax + 2);
  }

  Carver carver;
  HashIndex index;
  HashIndex group_index;
  Table<Group> groups;
  Table<PackedBlock> blocks;
};

}  // namespace simm::store
