// GpuTier: memory of one GPU that its helper has for itself. It holds copies of objects that
// clients of the node got into memory of its GPUs more than once (gpu_seen.h). The next get of such
// an object is a copy within the GPU, and does not cross the PCIe bus.
//
// The memory comes in extents, which have no handle: no other process can map them. So the tier can
// give them back without anybody's help: they are found by nobody any more, what was queued ends,
// they are unmapped. All copies here are of bytes that the daemon has elsewhere; to drop one costs
// a crossing of the bus, nothing else.
//
// Which bytes a name stands for is decided elsewhere, under the rules of the pool and of shared
// reads: an object that is put anew has a new name (object_part.h), and its old copy is never asked
// for again. It goes when it was not used for longest.
//
// An extent belongs to one tenant at a time, and is zeroed before the next one's bytes. Tenants
// have equal shares of the extents. One with less than its share takes an extent from one with
// more; nobody else does. Within a tenant the copy that was not used for longest makes way.
//
// All copies to and from the tier are queued on one stream of the driver, in the order of the calls
// here. Thread: the helper's one.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon/memory/gpu/gpu_protocol.h"
#include "daemon/memory/helper/object_part.h"
#include "ipc/cuda/driver.h"

namespace simm::memory {

struct GpuTierConfig {
  std::uint64_t extent_bytes = kGpuExtentBytes;
  std::uint64_t piece_bytes_min = kGpuTierPieceBytesMin;
  std::uint32_t evictions_max = 64;        // for one piece
  std::uint64_t retry_ns = 1'000'000'000;  // after the GPU had no memory, and between looks at it
};

class GpuTier {
public:
  using Clock = std::uint64_t (*)();  // nanoseconds that only grow
  // `stream` is where the caller queues copies to and from places.
  GpuTier(const cuda::Driver& driver, int ordinal, cuda::Stream stream, GpuTierCounts& counts,
          GpuNames& names, Clock now, const GpuTierConfig& config = {});
  GpuTier(const GpuTier&) = delete;
  GpuTier& operator=(const GpuTier&) = delete;

  struct Place {
    cuda::DevicePointer address = 0;  // 0: the tier has no place for it
    bool is_filled = false;           // else the caller fills it before it queues anything else
  };
  // For `bytes` of that name that go to memory of `tenant`. A piece that has no place gets one only
  // where the node `takes_in` what it asks for.
  Place find(const ObjectPart& part, std::uint64_t bytes, std::uint64_t tenant, bool takes_in);

  // The same for bytes that go to memory of another GPU: what is not there gets no place here.
  Place find_for_peer(const ObjectPart& part, std::uint64_t bytes, std::uint64_t tenant);

  // From now on it has at most so much, and leaves so much of the GPU's memory to others. Extents
  // that are too many are found by nobody from here on. `order`: the number that counts as done
  // when they are back.
  void resize(std::uint64_t bytes, std::uint64_t reserve_bytes, std::uint64_t order = 0);

  // Gives back extents whose copies have ended; now and then looks whether others need memory.
  // False: the driver has failed.
  bool do_work();
  // It waits for copies to end.
  [[nodiscard]] bool is_giving_back() const noexcept { return !leaving_.empty(); }

  // Recounts everything; null, or what does not add up. For tests.
  [[nodiscard]] const char* audit() const;

private:
  struct Extent {
    cuda::DevicePointer address = 0;
    std::uint64_t tenant = 0;
    bool has_owner = false;
    bool is_fresh = true;                          // as it came from the driver: nobody has had it
    std::map<std::uint64_t, std::uint64_t> holes;  // by offset: how long
    std::uint64_t free_bytes = 0;
    std::uint32_t pieces = 0;
    std::uint64_t used = 0;  // the number of the last look-up that met it
    // Of one that leaves: recorded behind its last copy; the order that waits for it.
    cuda::Event drained = nullptr;
    std::uint64_t order = 0;
  };
  struct Name {
    std::uint64_t serial;
    std::uint64_t offset;
    std::uint32_t origin;
    bool operator==(const Name&) const = default;
  };
  struct NameHash {
    std::size_t operator()(const Name& name) const noexcept;
  };
  using Order = std::list<Name>;  // the least recently used first
  struct Piece {
    Extent* extent = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    Order::iterator place;  // in its tenant's order
  };
  struct Tenant {
    Order order;
    std::uint32_t extents = 0;
  };
  using Pieces = std::unordered_map<Name, Piece, NameHash>;

  [[nodiscard]] static std::uint64_t print_of(const Name& name, std::uint64_t tenant) noexcept;
  // It was met by this look-up.
  void touch(Extent& extent, Piece& piece);
  Place take_place(const Name& name, std::uint64_t bytes, std::uint64_t tenant);
  [[nodiscard]] Extent* make_room(std::uint64_t bytes, std::uint64_t tenant);
  bool add_extent(std::uint64_t tenant);
  [[nodiscard]] Extent* create_extent();
  [[nodiscard]] cuda::DevicePointer map_extent();
  [[nodiscard]] Extent* spare_extent() const;
  [[nodiscard]] Extent* extent_of_others(std::uint64_t tenant) const;
  bool give(Extent& extent, std::uint64_t tenant);
  void empty(Extent& extent);
  void drop(Pieces::iterator piece);
  void begin_leaving(Extent& extent);
  bool leave(Extent& extent);
  [[nodiscard]] std::uint64_t spare_bytes() const;
  void keep_reserve();
  void shrink(std::size_t extents, std::uint64_t order);
  void show();

  const cuda::Driver& driver_;
  const int ordinal_;
  const cuda::Stream stream_;
  GpuTierCounts& counts_;
  GpuNames& names_;
  const Clock now_;
  const GpuTierConfig config_;
  std::uint64_t bytes_max_ = 0;
  std::uint64_t reserve_bytes_ = 0;
  std::uint64_t look_ns_ = 0;   // when memory is looked at next
  std::uint64_t grow_ns_ = 0;   // not before
  std::uint64_t begun_ns_ = 0;  // to give back what leaves
  std::uint64_t order_ = 0;     // the last one that came
  std::uint64_t look_ups_ = 0;
  std::uint64_t used_bytes_ = 0;
  bool has_failed_ = false;  // the driver, when an extent began to leave
  std::vector<std::unique_ptr<Extent>> extents_;
  std::vector<std::unique_ptr<Extent>> leaving_;
  std::map<std::uint64_t, Tenant> tenants_;  // that have extents
  Pieces pieces_;
};

}  // namespace simm::memory
