#include "daemon/memory/region_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "daemon/memory/fault_guard.h"
#include "daemon/memory/numa_node.h"
#include "ipc/range.h"
#include "simm/check.h"

namespace simm::memory {

namespace {

// mincore() answers "present" for every page of a file that the asking process may not write by the
// file's own mode; the mode of the descriptor does not count there.
bool mincore_tells_truth(int fd) noexcept {
  return ::syscall(SYS_faccessat2, fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

}  // namespace

Expected<std::unique_ptr<RegionMemory>> RegionMemory::map(ipc::MemoryFile file, const Spec& spec,
                                                          TouchBudget& budget, PinCharge charge) {
  if (spec.length == 0 || !ipc::range_within(spec.file_offset, spec.length, file.bytes())) {
    return Error{Status::invalid_argument, "region of " + std::to_string(spec.length) +
                                               " bytes at offset " +
                                               std::to_string(spec.file_offset) + " of a file of " +
                                               std::to_string(file.bytes()) + " bytes"};
  }
  const std::uint64_t page = file.page_bytes();
  const std::uint64_t first = spec.file_offset / page * page;
  const std::uint64_t delta = spec.file_offset - first;
  const std::uint64_t bytes = (delta + spec.length - 1) / page * page + page;
  Expected<ipc::Mapping> mapping = ipc::Mapping::map(
      file.fd(), first, bytes, {.writable = true, .dont_fork = true, .dont_dump = true});
  if (!mapping) return std::move(mapping).error();

  FaultGuard::install();
  auto made = std::make_unique<RegionMemory>();
  made->charge_ = std::move(charge);
  made->mapping_ = std::move(mapping).value();
  Region& region = made->region_;
  region.kind = spec.kind;
  region.id = spec.id;
  region.session_id = spec.session_id;
  region.length = spec.length;
  region.client_address = spec.client_address;
  // SAFETY: delta < page, and the mapping has delta + length bytes at least.
  region.base = made->mapping_.data() + delta;

  const bool is_ours_to_seal =
      spec.kind == RegionKind::shared && file.cannot_shrink() && (file.seals() & F_SEAL_SEAL) == 0;
  if (is_ours_to_seal && !file.seal_final()) {
    return Error{Status::io_error, "the region's memory file takes no seal"};
  }
  const bool is_whole_for_ever = file.cannot_shrink() && (file.seals() & F_SEAL_FUTURE_WRITE) != 0;
  // Huge pages come out of a pool that is not charged to the daemon's memory cgroup.
  if (!file.huge_pages()) {
    const RegionPagesConfig config{made->mapping_.data(), bytes, first, !is_whole_for_ever,
                                   &budget};
    const bool by_seek = !mincore_tells_truth(file.fd());
    made->pages_ =
        std::make_unique<RegionPages>(config, by_seek ? file.release() : ipc::UniqueFd());
    region.pages = made->pages_.get();
  }
  // A page of such a file can fail only when the machine is out of memory; the copy is guarded all
  // the same.
  region.can_fault = !is_whole_for_ever;
  region.numa_node = numa_node_of(made->mapping_.data(), bytes, made->pages_.get());
  return made;
}

void RegionMemory::attach(std::unique_ptr<RegionKeys> keys) noexcept {
  SIMM_CHECK(keys_ == nullptr);
  keys_ = std::move(keys);
  region_.keys = keys_.get();
}

std::unique_ptr<RegionMemory> RegionMemory::foreign(const Spec& spec, PinCharge charge,
                                                    std::shared_ptr<ForeignCopier> copier) {
  auto made = std::make_unique<RegionMemory>();
  made->charge_ = std::move(charge);
  made->region_.kind = RegionKind::foreign;
  made->region_.id = spec.id;
  made->region_.session_id = spec.session_id;
  made->region_.length = spec.length;
  made->region_.client_address = spec.client_address;
  made->region_.copier = copier.get();
  made->copier_ = std::move(copier);
  return made;
}

}  // namespace simm::memory
