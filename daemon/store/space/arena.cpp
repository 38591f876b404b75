#include "daemon/store/space/arena.h"

#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace simm::store {

namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Expected<Arena> Arena::create(const ArenaConfig& config) {
  if (config.bytes == 0 || config.bytes > std::uint64_t{1} << 46) {
    return Error{Status::invalid_argument, "arena of " + std::to_string(config.bytes) +
                                               " bytes: between 1 and 2^46 are possible"};
  }
  Arena arena;
  Outcome opened = arena.open(config.bytes, config.hugepages);
  if (!opened && config.hugepages) {
    arena.note_ = "no huge pages (" + opened.error().context + ")";
    arena.close();
    opened = arena.open(config.bytes, false);
  }
  if (!opened) return std::move(opened).error();
  if (Outcome placed = arena.place(config); !placed) return std::move(placed).error();
  return arena;
}

Expected<Arena> Arena::map(ipc::UniqueFd file, const ArenaConfig& config) {
  Arena arena;
  arena.size_ = config.bytes;
  arena.hugepages_ = config.hugepages;
  if (Outcome mapped = arena.map_file(std::move(file), config.sparse); !mapped) {
    return std::move(mapped).error();
  }
  if (Outcome placed = arena.place(config); !placed) return std::move(placed).error();
  return arena;
}

Outcome Arena::open(std::uint64_t bytes, bool hugepages) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (hugepages ? MFD_HUGETLB : 0u);
  ipc::UniqueFd file(::memfd_create("simm-arena", flags));
  if (!file.valid()) return system_error("memfd_create of the arena", errno);
  size_ = round_up(bytes, hugepages ? kHugePageBytes : kPageBytes);
  hugepages_ = hugepages;
  if (::ftruncate(file.get(), static_cast<off_t>(size_)) != 0) {
    return system_error("ftruncate of the arena", errno);
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return system_error("sealing the arena", errno);
  }
  return map_file(std::move(file), false);
}

Outcome Arena::map_file(ipc::UniqueFd file, bool sparse) {
  // Maps without MAP_NORESERVE: a hugetlb pool that is too small refuses here, not by SIGBUS later.
  const int flags = MAP_SHARED | (sparse ? MAP_NORESERVE : 0);
  void* mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, flags, file.get(), 0);
  if (mapped == MAP_FAILED) return system_error("mmap of the arena", errno);
  data_ = static_cast<std::byte*>(mapped);
  writer_ = std::move(file);
  // A forked helper gets the fd if it is to see the arena, and never needs a copy of the mapping.
  static_cast<void>(::madvise(data_, size_, MADV_DONTFORK));
  // What tenants store stays out of core files, which would be as long as the pool.
  static_cast<void>(::madvise(data_, size_, MADV_DONTDUMP));
  if (!hugepages_) static_cast<void>(::madvise(data_, size_, MADV_HUGEPAGE));
  return keep_read_only();
}

// A mapping of a file that is open for reading can not be made writable afterwards either.
Outcome Arena::keep_read_only() {
  const std::string path = "/proc/self/fd/" + std::to_string(writer_.get());
  fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd_.valid()) return system_error("open of the arena for reading", errno);
  return Done{};
}

Outcome Arena::place(const ArenaConfig& config) {
  if (config.numa_node >= 0) return bind(config.numa_node);
  if (!config.part_nodes.empty()) prefer(config.part_nodes, config.part_bytes);
  return Done{};
}

// A wish: memory of another node serves as well, only slower.
void Arena::prefer(const std::vector<int>& nodes, std::uint64_t part_bytes) {
  if (numa_available() < 0) {
    place_note_ = "this kernel has no NUMA policy";
    return;
  }
  std::uint64_t at = 0;
  for (const int node : nodes) {
    const std::uint64_t begin = std::exchange(at, at + part_bytes);
    if (node < 0) continue;
    if (node > numa_max_node()) {
      place_note_ = "there is no NUMA node " + std::to_string(node);
      continue;
    }
    bitmask* const mask = numa_allocate_nodemask();
    numa_bitmask_setbit(mask, static_cast<unsigned>(node));
    // SAFETY: the parts are in the arena, as its maker has laid them out.
    const long placed =
        ::mbind(data_ + begin, part_bytes, MPOL_PREFERRED, mask->maskp, mask->size + 1, 0);
    const int why = errno;
    numa_free_nodemask(mask);
    if (placed == 0) {
      ++parts_placed_;
    } else {
      place_note_ = system_error("mbind of a shard", why).context;
    }
  }
}

Outcome Arena::bind(int numa_node) {
  if (numa_available() < 0) {
    note_ += note_.empty() ? "" : "; ";
    note_ += "this kernel has no NUMA policy, the arena is not bound";
    return Done{};
  }
  if (numa_node > numa_max_node()) {
    return Error{Status::invalid_argument, "NUMA node " + std::to_string(numa_node) +
                                               ": this machine's last one is " +
                                               std::to_string(numa_max_node())};
  }
  bitmask* nodes = numa_allocate_nodemask();
  numa_bitmask_setbit(nodes, static_cast<unsigned>(numa_node));
  const long bound = ::mbind(data_, size_, MPOL_BIND, nodes->maskp, nodes->size + 1, 0);
  const int why = errno;
  numa_free_nodemask(nodes);
  if (bound != 0) return system_error("mbind of the arena", why);
  return Done{};
}

void Arena::close() noexcept {
  if (data_ != nullptr) ::munmap(std::exchange(data_, nullptr), size_);
  fd_.reset();
  writer_.reset();
}

Arena::Arena(Arena&& other) noexcept
    : fd_(std::move(other.fd_)),
      writer_(std::move(other.writer_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(other.size_),
      hugepages_(other.hugepages_),
      note_(std::move(other.note_)),
      parts_placed_(other.parts_placed_),
      place_note_(std::move(other.place_note_)) {}

Arena::~Arena() {
  close();
}

}  // namespace simm::store
