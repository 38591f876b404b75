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

constexpr const char* kCanBePunched =
    "its owner can punch holes into the memory file, and so hold up the other tenants of this "
    "daemon: use allocate_region(), seal a memfd with F_SEAL_SHRINK and not with F_SEAL_SEAL, or "
    "give the tenant a daemon of its own";
constexpr const char* kCanNotBeSeen =
    "the mode of the memory file does not let the daemon write, so to see its pages the daemon "
    "would wait for the file's owner: give the mode 0666, or the tenant a daemon of its own";
constexpr const char* kSealedForEver =
    "the memory file has the seal F_SEAL_FUTURE_WRITE, so the kernel makes no further writable "
    "mapping: allocate the region anew (a daemon with several tenants sets this seal, one with a "
    "single tenant does not)";

// mincore() answers "present" for every page of a file that the asking process may not write by the
// file's own mode; the mode of the descriptor does not count there.
bool mincore_tells_truth(int fd) noexcept {
  return ::syscall(SYS_faccessat2, fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

// What a file lacks to be mapped for several tenants; null: nothing.
const char* unfit_for_many(const ipc::MemoryFile& file, RegionKind kind) noexcept {
  const unsigned seals = file.seals();
  const bool takes_seals = file.cannot_shrink() && (seals & F_SEAL_SEAL) == 0;
  const bool is_sealed = (seals & F_SEAL_FUTURE_WRITE) != 0;
  if (!is_sealed && (kind != RegionKind::shared || !takes_seals)) return kCanBePunched;
  // Asking by lseek() waits for the lock that fallocate() holds, sealed or not.
  if (!file.huge_pages() && !mincore_tells_truth(file.fd())) return kCanNotBeSeen;
  return nullptr;
}

Expected<MappedRange> map_range(ipc::MemoryFile& file, const RegionMemory::Spec& spec,
                                std::uint64_t first, std::uint64_t bytes, MappedFiles* lasting) {
  const char* const lack = lasting != nullptr ? unfit_for_many(file, spec.kind) : nullptr;
  if (lack != nullptr) return Error{Status::unsupported, lack};
  if ((file.seals() & F_SEAL_FUTURE_WRITE) != 0) {
    MappedRange known;
    if (lasting != nullptr && !file.huge_pages()) {
      known = lasting->find(spec.tenant, file.fd(), first, bytes);
    }
    if (known.mapping != nullptr) return known;
    return Error{Status::unsupported, kSealedForEver};
  }
  if (lasting != nullptr) {
    // To ask for a seal that is there waits until a punch that is under way has ended. mmap() would
    // wait too, and everybody who needs the address space with it.
    (void)::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK);
  }
  Expected<ipc::Mapping> mapping = ipc::Mapping::map(
      file.fd(), first, bytes, {.writable = true, .dont_fork = true, .dont_dump = true});
  if (!mapping) return std::move(mapping).error();
  const auto shared = std::make_shared<ipc::Mapping>(std::move(mapping).value());
  if (lasting != nullptr) {
    if (Outcome sealed = file.seal_final(); !sealed) {
      return Error{Status::unsupported, "the memory file takes no seal: " + sealed.error().context};
    }
    if (!file.huge_pages()) lasting->add(spec.tenant, file.fd(), first, shared);
  }
  return MappedRange{shared, shared->data()};
}

PageTrust trust_of(const ipc::MemoryFile& file, RegionKind kind) noexcept {
  if (!file.cannot_shrink()) return PageTrust::none;
  if ((file.seals() & F_SEAL_FUTURE_WRITE) != 0) return PageTrust::whole;
  return kind == RegionKind::shared ? PageTrust::spot_checked : PageTrust::none;
}

}  // namespace

Expected<std::unique_ptr<RegionMemory>> RegionMemory::map(ipc::MemoryFile file, const Spec& spec,
                                                          TouchBudget& budget, PinCharge charge,
                                                          MappedFiles* lasting) {
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
  Expected<MappedRange> range = map_range(file, spec, first, bytes, lasting);
  if (!range) return std::move(range).error();

  FaultGuard::install();
  auto made = std::make_unique<RegionMemory>();
  made->charge_ = std::move(charge);
  made->mapping_ = std::move(range->mapping);
  made->files_ = lasting;
  made->can_shrink_ = !file.cannot_shrink();
  Region& region = made->region_;
  region.kind = spec.kind;
  region.id = spec.id;
  region.session_id = spec.session_id;
  region.length = spec.length;
  region.client_address = spec.client_address;
  // SAFETY: delta < page, and the range has delta + length bytes at least.
  region.base = range->data + delta;

  const PageTrust trust = trust_of(file, spec.kind);
  // Huge pages come out of a pool that is not charged to the daemon's memory cgroup.
  if (!file.huge_pages()) {
    const RegionPagesConfig config{range->data, bytes, first, trust, &budget};
    const bool by_seek = !mincore_tells_truth(file.fd());
    made->pages_ =
        std::make_unique<RegionPages>(config, by_seek ? file.release() : ipc::UniqueFd());
    region.pages = made->pages_.get();
  }
  // A page of a file of whole trust can fail only when the machine is out of memory; the copy is
  // guarded all the same.
  region.can_fault = trust != PageTrust::whole;
  region.numa_node = numa_node_of(range->data, bytes, made->pages_.get());
  return made;
}

std::uint64_t RegionMemory::unmap_piece(std::uint64_t bytes_max) {
  region_.keys = nullptr;
  keys_.reset();
  region_.pages = nullptr;
  pages_.reset();
  if (mapping_ == nullptr) return 0;
  if (files_ != nullptr && !files_->forget_if_last(mapping_)) {
    mapping_.reset();  // of another region, too
    return 0;
  }
  files_ = nullptr;
  return mapping_->unmap_tail(bytes_max);
}

void RegionMemory::attach(std::unique_ptr<RegionKeys> keys) noexcept {
  SIMM_CHECK(keys_ == nullptr);
  keys_ = std::move(keys);
  region_.keys = keys_.get();
}

std::unique_ptr<RegionMemory> RegionMemory::copied(const Spec& spec, PinCharge charge,
                                                   std::shared_ptr<Copier> copier) {
  auto made = std::make_unique<RegionMemory>();
  made->charge_ = std::move(charge);
  made->region_.kind = spec.kind;
  made->region_.id = spec.id;
  made->region_.session_id = spec.session_id;
  made->region_.length = spec.length;
  made->region_.client_address = spec.client_address;
  made->region_.copier = copier.get();
  made->copier_ = std::move(copier);
  return made;
}

}  // namespace simm::memory
