#include "daemon/memory/mapped_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "ipc/range.h"

namespace simm::memory {

MappedRange MappedFiles::find(std::uint64_t tenant, int fd, std::uint64_t first,
                              std::uint64_t bytes) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return {};
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = entries_.equal_range({tenant, file.st_dev, file.st_ino});
  for (auto at = begin; at != end; ++at) {
    std::shared_ptr<const ipc::Mapping> mapping = at->second.mapping.lock();
    if (mapping == nullptr || first < at->second.first) continue;
    const std::uint64_t offset = first - at->second.first;
    if (!ipc::range_within(offset, bytes, mapping->bytes())) continue;
    // SAFETY: the line above.
    std::byte* const data = mapping->data() + offset;
    return {std::move(mapping), data};
  }
  return {};
}

void MappedFiles::add(std::uint64_t tenant, int fd, std::uint64_t first,
                      const std::shared_ptr<const ipc::Mapping>& mapping) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return;
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= sweep_at_) sweep();
  entries_.emplace(Key{tenant, file.st_dev, file.st_ino}, Entry{first, mapping});
}

std::size_t MappedFiles::size() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void MappedFiles::sweep() {
  std::erase_if(entries_, [](const auto& entry) { return entry.second.mapping.expired(); });
  sweep_at_ = std::max<std::size_t>(64, 2 * entries_.size());
}

}  // namespace simm::memory
