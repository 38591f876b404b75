// Making a store, and reading back what an earlier life left in its memory.
#include <algorithm>
#include <string>
#include <utility>

#include "daemon/store/store.h"
#include "daemon/store/store_recovery.h"
#include "daemon/store/store_tables.h"

namespace simm::store {

namespace {

constexpr std::uint64_t kTablePageBytes = 4096;

Expected<std::uint32_t> objects_of(const StoreConfig& config, std::uint64_t payload_bytes) {
  constexpr std::uint64_t kObjectsMax = 1u << 30;  // numbers and blocks have 32 bits
  if (payload_bytes < ExtentAllocator::kGranuleBytes ||
      payload_bytes / ExtentAllocator::kGranuleBytes > kPlaceMask) {
    return Error{Status::invalid_argument, "arena of " + std::to_string(payload_bytes) +
                                               " bytes: at least 64 are needed, at most 2^46"};
  }
  for (const TenantQuota& quota : config.quotas) {
    if (quota.weight == 0 || quota.weight > kWeightMax) {
      return Error{Status::invalid_argument, "weight " + std::to_string(quota.weight) + ": 1 to " +
                                                 std::to_string(kWeightMax)};
    }
  }
  std::uint64_t objects = config.objects_max;
  if (objects == 0) objects = std::clamp<std::uint64_t>(payload_bytes / 4096, 1024, kObjectsMax);
  if (objects > kObjectsMax) {
    return Error{Status::invalid_argument, "objects_max " + std::to_string(objects) + ": at most " +
                                               std::to_string(kObjectsMax)};
  }
  return static_cast<std::uint32_t>(objects);
}

}  // namespace

std::uint64_t Store::table_bytes_for(const StoreConfig& config,
                                     std::uint64_t payload_bytes) noexcept {
  const auto objects = objects_of(config, payload_bytes);
  return objects ? MetaTable::bytes_for(*objects) : 0;
}

Expected<std::unique_ptr<Store>> Store::create(const StoreConfig& config,
                                               std::span<std::byte> arena) {
  ShardMemory memory;
  memory.payload = arena;
  return create(config, memory);
}

Expected<std::unique_ptr<Store>> Store::create(const StoreConfig& config,
                                               const ShardMemory& memory) {
  auto made = open(config, memory);
  if (!made) return made;
  RecoveryCrew alone;
  if (Outcome recovered = (*made)->recover(memory, alone); !recovered) {
    return std::move(recovered).error();
  }
  return made;
}

Expected<std::unique_ptr<Store>> Store::open(const StoreConfig& config, const ShardMemory& memory) {
  const auto count = objects_of(config, memory.payload.size());
  if (!count) return count.error();
  if (config.free_low_permille > config.free_high_permille || config.free_high_permille > 1000) {
    return Error{Status::invalid_argument, "watermarks: low <= high <= 1000 parts of 1,000"};
  }
  const std::uint64_t table_bytes = MetaTable::bytes_for(*count);
  const auto table_address = reinterpret_cast<std::uintptr_t>(memory.table.data());
  if (!memory.table.empty() &&
      (memory.table.size() < table_bytes || table_address % kTablePageBytes != 0)) {
    return Error{Status::invalid_argument,
                 "metadata table of " + std::to_string(memory.table.size()) + " bytes: " +
                     std::to_string(table_bytes) + " are needed, from a page boundary on"};
  }
  const std::uint64_t own_bytes = StoreTables::bytes_for(*count);
  auto own = ReservedMemory::map(own_bytes + (memory.table.empty() ? table_bytes : 0));
  if (!own) return std::move(own).error();
  const StoreTables tables(own->data(), *count);
  std::byte* const table = memory.table.empty() ? own->data() + own_bytes : memory.table.data();
  const MetaTable meta(table, *count, memory.payload.size());
  auto policy =
      make_eviction_policy(config.eviction, tables.groups, AccountBook::count_for(config));
  if (!policy) return std::move(policy).error();
  std::unique_ptr<Store> made(new Store(config, memory.payload, std::move(own).value(), tables,
                                        meta, std::move(policy).value()));
  ObjectBook& book = made->book_;
  if (memory.backing != nullptr) {
    book.records.grow_with(*memory.backing);
    book.long_keys.grow_with(*memory.backing);
  }
  if (memory.contents == Contents::fresh || memory.table.empty()) book.meta.clear(memory.boot);
  return made;
}

Outcome Store::recover(const ShardMemory& memory, RecoveryCrew& crew) {
  return StoreRecovery(book_, memory, crew).run();
}

Store::Store(const StoreConfig& config, std::span<std::byte> arena, ReservedMemory memory,
             const StoreTables& tables, const MetaTable& meta,
             std::unique_ptr<EvictionPolicy> policy)
    : book_(config, arena, std::move(memory), tables, meta, std::move(policy)),
      room_(book_),
      walker_(book_) {}

Store::~Store() = default;

}  // namespace simm::store
