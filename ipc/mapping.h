// Mapping: a range of a memory file in this process's address space, unmapped when the object goes.
// A thin owner around Boost.Interprocess mapped_region, whose exceptions end here.
// Thread: any, one at a time; the memory itself follows the rules of what lies in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "simm/expected.h"

namespace boost::interprocess {
class mapped_region;
}

namespace simm::ipc {

struct MappingOptions {
  bool writable = true;
  bool dont_fork = false;  // MADV_DONTFORK: a forked child does not have it (ring memory)
  bool dont_dump = false;  // MADV_DONTDUMP: tenants' bytes stay out of core files
};

class Mapping {
public:
  // Maps `bytes` bytes from `offset` on (both whole pages of the file). Nothing is touched: mapping
  // a sparse file of any size allocates no page of it. The descriptor may be closed afterwards.
  static Expected<Mapping> map(int fd, std::uint64_t offset, std::uint64_t bytes,
                               const MappingOptions& options = {});

  Mapping() noexcept;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }  // null when empty
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  // Unmaps the end of it, at most so many bytes: whole pages of the file. Returns how many it were;
  // 0: it is empty. For who must not hold up others that map memory meanwhile.
  std::uint64_t unmap_tail(std::uint64_t bytes_max) noexcept;

  // In a forked child, of memory mapped with dont_fork: becomes empty and unmaps nothing. The child
  // never had it, and something else may be at its address by now.
  void forget() noexcept;

private:
  std::unique_ptr<boost::interprocess::mapped_region> region_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace simm::ipc
