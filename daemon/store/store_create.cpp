// Making a store: one mapping for all tables, carved into its parts.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "daemon/store/store.h"
#include "simm/check.h"

namespace simm::store {

struct Store::Tables {
  // Hands out aligned parts of one range; counts only, while it has no memory yet.
  class Carver {
  public:
    explicit Carver(std::byte* memory) noexcept : memory_(memory) {}

    void* take(std::uint64_t bytes) noexcept {
      constexpr std::uint64_t kPage = 4096;  // parts do not share pages
      const std::uint64_t at = used_;
      used_ += (bytes + kPage - 1) / kPage * kPage;
      return memory_ == nullptr ? nullptr : memory_ + at;
    }
    [[nodiscard]] std::uint64_t used() const noexcept { return used_; }

  private:
    std::byte* memory_;
    std::uint64_t used_ = 0;
  };

  Tables(std::byte* memory, std::uint32_t objects) noexcept
      : carver(memory),
        index(carver.take(HashIndex::bytes_for(objects)), objects),
        group_index(carver.take(HashIndex::bytes_for(objects)), objects),
        records(carver.take(Table<Record>::bytes_for(objects)), objects),
        groups(carver.take(Table<Group>::bytes_for(objects)), objects),
        blocks(carver.take(Table<Block>::bytes_for(blocks_for(objects))), blocks_for(objects)),
        long_keys(carver.take(Table<LongKey>::bytes_for(objects)), objects) {}

  // Of the objects, and of what a job holds: each block of its window, or a new place for it.
  static std::uint32_t blocks_for(std::uint32_t objects) noexcept {
    return ExtentAllocator::blocks_for(objects + HoleWindow::kBlocksMax);
  }

  Carver carver;
  HashIndex index;
  HashIndex group_index;
  Table<Record> records;
  Table<Group> groups;
  Table<Block> blocks;
  Table<LongKey> long_keys;
};

Expected<std::unique_ptr<Store>> Store::create(const StoreConfig& config,
                                               std::span<std::byte> arena) {
  constexpr std::uint64_t kObjectsMax = 1u << 30;  // numbers and blocks have 32 bits
  if (arena.size() < ExtentAllocator::kGranuleBytes) {
    return Error{Status::invalid_argument,
                 "arena of " + std::to_string(arena.size()) + " bytes: at least 64 are needed"};
  }
  if (config.free_low_permille > config.free_high_permille || config.free_high_permille > 1000) {
    return Error{Status::invalid_argument, "watermarks: low <= high <= 1000 parts of 1,000"};
  }
  std::uint64_t objects = config.objects_max;
  if (objects == 0) objects = std::clamp<std::uint64_t>(arena.size() / 4096, 1024, kObjectsMax);
  if (objects > kObjectsMax) {
    return Error{Status::invalid_argument, "objects_max " + std::to_string(objects) + ": at most " +
                                               std::to_string(kObjectsMax)};
  }
  const auto count = static_cast<std::uint32_t>(objects);
  auto memory = ReservedMemory::map(Tables(nullptr, count).carver.used());
  if (!memory) return std::move(memory).error();
  const Tables tables(memory->data(), count);
  auto policy =
      make_eviction_policy(config.eviction, tables.groups, GroupBook::accounts_for(config));
  if (!policy) return std::move(policy).error();
  return std::unique_ptr<Store>(
      new Store(config, arena, std::move(memory).value(), tables, std::move(policy).value()));
}

Store::Store(const StoreConfig& config, std::span<std::byte> arena, ReservedMemory memory,
             const Tables& tables, std::unique_ptr<EvictionPolicy> policy)
    : config_(config),
      arena_(arena),
      memory_(std::move(memory)),
      records_(tables.records),
      long_keys_(tables.long_keys),
      index_(tables.index),
      extents_(tables.blocks, arena.size()),
      groups_(config, extents_.arena_bytes(), tables.groups, tables.group_index, std::move(policy)),
      free_low_bytes_(std::min(extents_.arena_bytes() * config.free_low_permille / 1000,
                               config.free_bytes_max / 2)),
      free_high_bytes_(std::min(extents_.arena_bytes() * config.free_high_permille / 1000,
                                config.free_bytes_max)) {}

Store::~Store() = default;

}  // namespace simm::store
