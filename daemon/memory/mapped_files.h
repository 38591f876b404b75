// MappedFiles: the client files that the daemon has mapped writable and then sealed. The kernel
// makes no second writable mapping of such a file, so a further region of the file uses the mapping
// that exists: a forked child registers the memory of its parent.
//
// Only regions of one tenant share a mapping. An entry lives as long as a region that uses it, so
// there are at most as many as regions. A file is known by device and inode, which no other memfd
// gets while the mapping exists: their numbers come from a counter of 64 bits. Files of huge pages
// have numbers of 32 bits, which come again, so they have no place here.
// Owned by the RegionRegistrar. Thread: any; a mutex guards the table, which no data agent uses.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "ipc/mapping.h"

namespace simm::memory {

struct MappedRange {
  std::shared_ptr<ipc::Mapping> mapping;  // null: none
  std::byte* data = nullptr;              // where the range begins in it
};

class MappedFiles {
public:
  // The `bytes` bytes from `first` on of the file `fd`, where a mapping of `tenant` has them all.
  [[nodiscard]] MappedRange find(std::uint64_t tenant, int fd, std::uint64_t first,
                                 std::uint64_t bytes);

  // `mapping` begins at `first` of the file.
  void add(std::uint64_t tenant, int fd, std::uint64_t first,
           const std::shared_ptr<ipc::Mapping>& mapping);

  // True when nobody but the caller has `mapping`; then find() never finds it again, so that it can
  // be unmapped piece by piece.
  [[nodiscard]] bool forget_if_last(const std::shared_ptr<ipc::Mapping>& mapping);

  [[nodiscard]] std::size_t size();  // entries, those whose mapping has gone included

private:
  using Key = std::tuple<std::uint64_t, dev_t, ino_t>;  // tenant, device, inode
  static std::optional<Key> key_of(std::uint64_t tenant, int fd);
  struct Entry {
    std::uint64_t first = 0;
    std::weak_ptr<ipc::Mapping> mapping;
  };
  void sweep();

  std::mutex mutex_;
  std::multimap<Key, Entry> entries_;
  std::size_t sweep_at_ = 64;  // entries; twice what was left, so a sweep costs little for each
};

}  // namespace simm::memory
