// MetaTable: the metadata table of one store, in memory that may outlive the process. A header, the
// records (entries by number), the long keys. The table knows which numbers were ever used: what
// was never used is not touched when it is read back, which would cost memory.
//
//   at          what
//   0           Header
//   4,096       Table<Record> for `objects` records
//   then        Table<LongKey> for as many, on a page of its own
//
// Every word of the header that changes is written by one store. A header that is not sound gives
// nothing back. Thread: the data agent of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/store/eviction/record.h"
#include "daemon/store/space/table.h"

namespace simm::store {

class MetaTable {
public:
  // Another layout of Header, Record or LongKey, or another meaning of them, is another format.
  static constexpr std::uint32_t kFormat = 1;

  struct Header {
    std::uint64_t magic;
    std::uint32_t format;
    std::uint32_t objects;  // how many the table has room for
    std::uint64_t arena_bytes;
    std::uint32_t record_bytes;
    std::uint32_t check;    // crc32c of what stands before it
    std::uint64_t boot;     // no part of the check: another boot is none either
    std::uint64_t highest;  // numbers above it were never used; crc32c of it in the high half
  };
  static_assert(sizeof(Header) == 48);

  [[nodiscard]] static std::uint64_t bytes_for(std::uint32_t objects) noexcept;

  // `memory`: bytes_for(objects) bytes on a page boundary that outlive it.
  MetaTable(std::byte* memory, std::uint32_t objects, std::uint64_t arena_bytes) noexcept;

  // Begins an empty table, whatever is there.
  void clear(std::uint64_t boot) noexcept;
  // How many records of an earlier life there may be; none: this is no table of this shape.
  [[nodiscard]] std::optional<std::uint32_t> kept_records() const noexcept;
  [[nodiscard]] std::uint64_t boot() const noexcept { return header_->boot; }
  void set_boot(std::uint64_t boot) noexcept;

  // After a record was handed out and zeroed, before it is sealed.
  void note_highest(std::uint32_t number) noexcept {
    if (number > highest_) write_highest(number);
  }

  // Views: one holder at a time changes them.
  [[nodiscard]] Table<Record> records() const noexcept;
  [[nodiscard]] Table<LongKey> long_keys() const noexcept;

private:
  static constexpr std::uint64_t kPageBytes = 4096;

  [[nodiscard]] Header wanted() const noexcept;
  void write_highest(std::uint32_t number) noexcept;

  Header* header_;
  std::uint32_t objects_;
  std::uint64_t arena_bytes_;
  std::uint32_t highest_ = 0;
};

}  // namespace simm::store
