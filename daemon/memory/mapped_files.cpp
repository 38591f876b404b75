#include "daemon/memory/mapped_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ipc/range.h"

namespace simm::memory {

std::optional<MappedFiles::Key> MappedFiles::key_of(std::uint64_t tenant, int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return std::nullopt;
  return Key{tenant, file.st_dev, file.st_ino};
}

MappedRange MappedFiles::find(std::uint64_t tenant, int fd, std::uint64_t first,
                              std::uint64_t bytes) {
  const std::optional<Key> key = key_of(tenant, fd);
  if (!key) return {};
  // Unmapped after the lock was given back, where it is the last one meanwhile: that may take long.
  std::vector<std::shared_ptr<ipc::Mapping>> unfit;
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = entries_.equal_range(*key);
  for (auto at = begin; at != end; ++at) {
    std::shared_ptr<ipc::Mapping> mapping = at->second.mapping.lock();
    if (mapping == nullptr) continue;
    const std::uint64_t offset = first - at->second.first;  // a huge one when it begins before
    if (first < at->second.first || !ipc::range_within(offset, bytes, mapping->bytes())) {
      unfit.push_back(std::move(mapping));
      continue;
    }
    // SAFETY: the check above.
    std::byte* const data = mapping->data() + offset;
    return {std::move(mapping), data};
  }
  return {};
}

void MappedFiles::add(std::uint64_t tenant, int fd, std::uint64_t first,
                      const std::shared_ptr<ipc::Mapping>& mapping) {
  const std::optional<Key> key = key_of(tenant, fd);
  if (!key) return;
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= sweep_at_) sweep();
  entries_.emplace(*key, Entry{first, mapping});
}

// Whoever else gets it gets it from find(), under the lock, or has it already.
bool MappedFiles::forget_if_last(const std::shared_ptr<ipc::Mapping>& mapping) {
  const std::lock_guard lock(mutex_);
  if (mapping.use_count() > 1) return false;
  std::erase_if(entries_, [&mapping](const auto& entry) {
    return !entry.second.mapping.owner_before(mapping) &&
           !mapping.owner_before(entry.second.mapping);
  });
  return true;
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
