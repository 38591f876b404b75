#include "daemon/memory/region_table.h"

#include <utility>

#include "simm/check.h"

namespace simm::memory {

RegionTable::RegionTable(std::uint32_t capacity)
    : capacity_(capacity), entries_(capacity), free_(capacity), idle_(capacity) {
  SIMM_CHECK(capacity >= 1 && capacity <= ipc::kRegionsMax);
  for (std::uint32_t i = 0; i < capacity; ++i) free_[i] = static_cast<std::uint16_t>(i);
  free_count_ = capacity;
}

ipc::RegionHandle RegionTable::insert(std::unique_ptr<RegionMemory>& memory) noexcept {
  SIMM_CHECK(memory != nullptr && memory->holds == 0 && !memory->retired);
  if (free_count_ == 0) return ipc::kNoRegion;
  const std::uint16_t index = free_[free_first_];
  free_first_ = (free_first_ + 1) % capacity_;
  --free_count_;
  ++size_;
  Entry& entry = entries_[index];
  entry.memory = std::move(memory);
  entry.memory->region().table_slot = index;
  entry.generation = static_cast<std::uint16_t>(entry.generation + 1);
  if (entry.generation == 0) entry.generation = 1;
  return ipc::make_region_handle(index, entry.generation);
}

bool RegionTable::was_given_out(ipc::RegionHandle handle) const noexcept {
  const std::uint32_t index = handle & 0xffff;
  const std::uint32_t generation = handle >> 16;
  return index < capacity_ && generation != 0 && generation <= entries_[index].generation;
}

void RegionTable::hold(const Region& region) noexcept {
  Entry& entry = entries_[region.table_slot];
  SIMM_CHECK(entry.memory != nullptr && &entry.memory->region() == &region);
  ++entry.memory->holds;
}

void RegionTable::drop(const Region& region) noexcept {
  const std::uint16_t index = region.table_slot;
  Entry& entry = entries_[index];
  SIMM_CHECK(entry.memory != nullptr && &entry.memory->region() == &region);
  SIMM_CHECK(entry.memory->holds > 0);
  if (--entry.memory->holds == 0 && entry.memory->retired) push_idle(index);
}

Status RegionTable::retire(ipc::RegionHandle handle) noexcept {
  RegionMemory* const memory = find(handle);
  if (memory == nullptr) return Status::invalid_argument;
  memory->retired = true;
  if (memory->holds == 0) push_idle(memory->region().table_slot);
  return Status::ok;
}

void RegionTable::retire_all() noexcept {
  for (Entry& entry : entries_) {
    if (entry.memory == nullptr || entry.memory->retired) continue;
    entry.memory->retired = true;
    if (entry.memory->holds == 0) push_idle(entry.memory->region().table_slot);
  }
}

void RegionTable::push_idle(std::uint16_t index) noexcept {
  SIMM_CHECK(idle_count_ < capacity_);
  idle_[(idle_first_ + idle_count_++) % capacity_] = index;
}

std::unique_ptr<RegionMemory> RegionTable::take_idle() noexcept {
  if (idle_count_ == 0) return nullptr;
  const std::uint16_t index = idle_[idle_first_];
  idle_first_ = (idle_first_ + 1) % capacity_;
  --idle_count_;
  --size_;
  free_[(free_first_ + free_count_++) % capacity_] = index;
  return std::move(entries_[index].memory);
}

const Region* RegionTable::at(std::uint32_t index) const noexcept {
  if (index >= capacity_ || entries_[index].memory == nullptr) return nullptr;
  return &entries_[index].memory->region();
}

}  // namespace simm::memory
