#include "daemon/store/pool/meta_table.h"

#include <atomic>
#include <cstring>

#include "daemon/base/crc32c.h"

namespace simm::store {

namespace {

constexpr std::uint64_t kMagic = 0x656c6261544d4d53;  // "SMMTable"

std::uint64_t checked(std::uint32_t number) noexcept {
  return std::uint64_t{base::crc32c(&number, sizeof number)} << 32 | number;
}

constexpr std::uint64_t pages(std::uint64_t bytes, std::uint64_t page_bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

std::uint64_t MetaTable::bytes_for(std::uint32_t objects) noexcept {
  return kPageBytes + pages(Table<Record>::bytes_for(objects), kPageBytes) +
         pages(Table<LongKey>::bytes_for(objects), kPageBytes);
}

MetaTable::MetaTable(std::byte* memory, std::uint32_t objects, std::uint64_t arena_bytes) noexcept
    : header_(reinterpret_cast<Header*>(memory)), objects_(objects), arena_bytes_(arena_bytes) {}

MetaTable::Header MetaTable::wanted() const noexcept {
  Header header{kMagic, kFormat, objects_, arena_bytes_, sizeof(Record), 0, 0, 0};
  header.check = base::crc32c(&header, offsetof(Header, check));
  return header;
}

void MetaTable::clear(std::uint64_t boot) noexcept {
  // First: records of an earlier life are not behind a header that is sound, at no time.
  write_highest(0);
  set_boot(boot);
  const Header header = wanted();
  std::memcpy(header_, &header, offsetof(Header, boot));
}

std::optional<std::uint32_t> MetaTable::kept_records() const noexcept {
  const Header header = wanted();
  if (std::memcmp(header_, &header, offsetof(Header, boot)) != 0) return std::nullopt;
  const auto highest = static_cast<std::uint32_t>(header_->highest);
  if (header_->highest != checked(highest) || highest > objects_) return std::nullopt;
  return highest;
}

void MetaTable::set_boot(std::uint64_t boot) noexcept {
  std::atomic_ref<std::uint64_t>(header_->boot).store(boot, std::memory_order_release);
}

void MetaTable::write_highest(std::uint32_t number) noexcept {
  highest_ = number;
  std::atomic_ref<std::uint64_t>(header_->highest)
      .store(checked(number), std::memory_order_release);
}

// SAFETY: bytes_for() counted the header's page and both tables.
Table<Record> MetaTable::records() const noexcept {
  return {reinterpret_cast<std::byte*>(header_) + kPageBytes, objects_};
}

Table<LongKey> MetaTable::long_keys() const noexcept {
  std::byte* const records = reinterpret_cast<std::byte*>(header_) + kPageBytes;
  return {records + pages(Table<Record>::bytes_for(objects_), kPageBytes), objects_};
}

}  // namespace simm::store
