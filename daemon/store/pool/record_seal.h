// The seal of a record: what makes an entry of the metadata table true. The process may be killed
// between any two instructions, and the next life knows only what lies in the table then. So every
// change is one store of one word:
//   - an object appears when its seal is written, after everything else of it;
//   - it is gone when its seal is cleared, before its number or its extent is used again;
//   - it moves when its place is written, after its bytes were copied. The place carries a check of
//     its own, because the seal could not change at the same instant.
// A process that maps the memory after the thread is gone sees its stores in program order. So only
// the compiler has to be kept from turning them around.
// Thread: the data agent of the store.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "daemon/base/crc32c.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/space/extent_allocator.h"

namespace simm::store {

// A place is the number of a granule, and above it the low bits of a crc32c.
inline constexpr unsigned kPlaceBits = 40;
inline constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;

// The place of an extent, as it stands in this record: it is not right in another one.
[[nodiscard]] inline std::uint64_t place_at(const Record& record, std::uint64_t offset) noexcept {
  const std::uint64_t granule = offset / ExtentAllocator::kGranuleBytes;
  std::uint32_t crc = base::crc32c_add(~std::uint32_t{0}, granule);
  crc = base::crc32c_add(crc, record.hash.low);
  crc = base::crc32c_add(crc, record.generation);
  return granule | std::uint64_t{crc} << kPlaceBits;
}

[[nodiscard]] inline std::uint64_t extent_offset(const Record& record) noexcept {
  return (record.place & kPlaceMask) * ExtentAllocator::kGranuleBytes;
}

// What the seal of this record has to be. Never 0.
[[nodiscard]] inline std::uint32_t seal_of(const Record& record) noexcept {
  const std::uint64_t words[] = {record.hash.low,
                                 record.hash.high,
                                 record.tenant.value,
                                 record.name_space.value,
                                 record.expires_ns,
                                 record.length,
                                 record.group_hash,
                                 record.generation,
                                 record.epoch,
                                 record.payload_digest,
                                 std::uint64_t{record.long_key} << 32 | record.key_check,
                                 record.key_bytes};
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::uint64_t word : words) crc = base::crc32c_add(crc, word);
  return crc == 0 ? 1 : crc;
}

// Sealed, and nothing of the record has changed since, but perhaps its key: a look-up compares the
// key itself.
[[nodiscard]] inline bool is_sealed(const Record& record) noexcept {
  return record.seal == seal_of(record) && record.place == place_at(record, extent_offset(record));
}

[[nodiscard]] inline std::uint32_t key_check_of(std::string_view key) noexcept {
  return base::crc32c(key.data(), key.size());
}

inline void seal(Record& record) noexcept {
  std::atomic_ref<std::uint32_t>(record.seal).store(seal_of(record), std::memory_order_release);
}

inline void unseal(Record& record) noexcept {
  std::atomic_ref<std::uint32_t>(record.seal).store(0, std::memory_order_relaxed);
  // What comes after this in the program may use the extent and the record for another object.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// After the bytes were copied. A record that is not as it was sealed never becomes so by this.
inline void move_to(Record& record, std::uint64_t offset) noexcept {
  if (!is_sealed(record)) unseal(record);
  std::atomic_ref<std::uint64_t>(record.place)
      .store(place_at(record, offset), std::memory_order_release);
}

}  // namespace simm::store
