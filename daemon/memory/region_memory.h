// RegionMemory: a Region together with everything that keeps it alive: the mapping, the knowledge
// of its pages, what NICs know of it, and what it charges to the pin budgets. Destroying it unmaps
// the region, so it happens on a control or registrar thread: unmapping 100 GiB takes a while.
// Thread: made and destroyed on control/registrar; in between its RegionTable's.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/memory/helper/copier.h"
#include "daemon/memory/mapped_files.h"
#include "daemon/memory/pin_budget.h"
#include "daemon/memory/region.h"
#include "daemon/memory/region_keys.h"
#include "daemon/memory/region_pages.h"
#include "daemon/memory/touch_budget.h"
#include "ipc/mapping.h"
#include "ipc/memory_file.h"
#include "simm/expected.h"

namespace simm::memory {

class RegionMemory {
public:
  struct Spec {
    RegionKind kind = RegionKind::shared;
    std::uint64_t file_offset = 0;  // of byte 0
    std::uint64_t length = 0;       // bytes, > 0
    std::uint64_t id = 0;
    std::uint64_t session_id = 0;
    std::uint64_t tenant = 0;
    std::uint64_t client_address = 0;
  };

  // Maps the range of an inspected file. Nothing of it is touched. invalid_argument when the range
  // is not inside the file; unsupported when the client has to copy its bytes, with the reason.
  //
  // `lasting`: of a daemon with several tenants; null: there is one. A touch of a page waits in the
  // kernel while the owner of the file punches a hole there, as slowly as he likes. So with several
  // tenants only files without that danger are mapped: a memfd of kind `shared` that is sealed
  // against shrinking, and that takes the final seals here. Those seals are for ever, so with one
  // tenant no file gets them: the next daemon and a forked child can map it, too.
  static Expected<std::unique_ptr<RegionMemory>> map(ipc::MemoryFile file, const Spec& spec,
                                                     TouchBudget& budget, PinCharge charge,
                                                     MappedFiles* lasting = nullptr);

  // A region of kind foreign or gpu, which only its helper process reaches. `copier` may be null in
  // tests of tables.
  static std::unique_ptr<RegionMemory> copied(const Spec& spec, PinCharge charge,
                                              std::shared_ptr<Copier> copier);

  // Before anybody else sees the region, once.
  void attach(std::unique_ptr<RegionKeys> keys) noexcept;

  [[nodiscard]] Region& region() noexcept { return region_; }
  [[nodiscard]] const Region& region() const noexcept { return region_; }
  // Whether the client may cut the file of the mapped region to a shorter length.
  [[nodiscard]] bool can_shrink() const noexcept { return can_shrink_; }

  // Unmaps a piece, at most so many bytes (whole pages of the file). Returns how many it were; 0:
  // nothing is left to unmap here. From the first call on nobody may use the region.
  std::uint64_t unmap_piece(std::uint64_t bytes_max);

  // Operations that name the region: the RegionTable's.
  std::uint32_t holds = 0;
  bool retired = false;

private:
  Region region_;
  std::shared_ptr<ipc::Mapping> mapping_;
  MappedFiles* files_ = nullptr;  // in which the mapping may be; null: it is this region's alone
  bool can_shrink_ = false;
  std::unique_ptr<RegionPages> pages_;
  std::shared_ptr<Copier> copier_;
  PinCharge charge_;
  // Last, so that it goes first: NICs let go of the memory while it is mapped, counted and charged.
  std::unique_ptr<RegionKeys> keys_;
};

}  // namespace simm::memory
