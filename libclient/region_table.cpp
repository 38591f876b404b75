#include "libclient/region_table.h"

#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "libclient/private_pages.h"

namespace simm::detail {

Expected<RegionRecord*> RegionTable::add(RegionMemory memory) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory.address);
  const std::uint64_t end = start + memory.length;
  const std::lock_guard writer(writers_);
  const std::unique_lock lock(mutex_);
  const auto neighbour = by_end_.upper_bound(start);  // the first that ends behind our start
  if (neighbour != by_end_.end() &&
      reinterpret_cast<std::uintptr_t>(neighbour->second->address()) < end) {
    return Error{Status::invalid_argument, "the memory overlaps region '" +
                                               neighbour->second->memory().name +
                                               "': deregister that one first, or use it"};
  }
  if (by_end_.size() >= ipc::kRegionsMax) {
    return Error{Status::out_of_memory, std::to_string(ipc::kRegionsMax) +
                                            " regions are registered: register fewer, larger ones"};
  }
  RegionRecord* record = nullptr;
  if (free_.empty()) {
    record = &records_.emplace_back(core_, reasons_mutex_);
  } else {
    record = free_.front();
    free_.pop_front();
  }
  if (memory.mapping.data() != nullptr) {  // a new one, whatever was at its address before
    PrivatePages::instance().forget(memory.address, memory.length);
  }
  record->open(std::move(memory), next_generation_++);
  by_end_.emplace(end, record);
  return record;
}

void RegionTable::unlist(RegionRecord& record) noexcept {
  const std::lock_guard writer(writers_);
  const std::unique_lock lock(mutex_);
  const auto found =
      by_end_.find(reinterpret_cast<std::uintptr_t>(record.address()) + record.length());
  if (found != by_end_.end() && found->second == &record) by_end_.erase(found);
}

void RegionTable::recycle(RegionRecord& record) noexcept {
  const std::lock_guard writer(writers_);
  const std::unique_lock lock(mutex_);
  record.release();
  try {
    free_.push_back(&record);
  } catch (const std::bad_alloc&) {
    // The record is not used again; its memory is gone all the same.
  }
}

RegionRecord* RegionTable::find(std::uint64_t address, std::uint64_t length) const noexcept {
  const std::shared_lock lock(mutex_);
  const auto found = by_end_.upper_bound(address);
  if (found == by_end_.end() || !found->second->covers(address, length)) return nullptr;
  return found->second;
}

void RegionTable::for_each(const std::function<void(RegionRecord&)>& visit) {
  const std::shared_lock lock(mutex_);
  for (const auto& [end, record] : by_end_) visit(*record);
}

void RegionTable::after_fork_child() noexcept {
  for (RegionRecord& record : records_) record.reset_users();
  // The parent's readers may have held it, and changed nothing. Nobody else can want it here.
  new (&mutex_) std::shared_mutex;
  writers_.release_in_child();
  reasons_mutex_.release_in_child();
}

}  // namespace simm::detail
