// MemoryKeys: what a data agent knows of the registrations of memory. Seam: looked up in tables
// that registrar threads fill, and fixed ones in tests. "Not yet" is an answer, and asking makes it
// known that the memory is wanted.
// Thread: the data agents; never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/memory/region.h"
#include "daemon/transport/rdma/device/rdma_work.h"
#include "daemon/transport/rdma/registration/chunk_table.h"
#include "daemon/transport/rdma/registration/remote_target.h"

namespace simm::transport {

class MemoryKeys {
public:
  virtual ~MemoryKeys() = default;
  // Memory of the daemon as the device of that rail knows it: how many parts it lies in; 0: not
  // registered there, or not yet.
  [[nodiscard]] virtual std::size_t local(
      std::uint16_t rail, std::byte* at, std::uint64_t bytes,
      std::span<LocalPart, Work::kPartsMax> parts) const noexcept = 0;
  // A client's slice as other daemons may name it; `page` of the targets is the caller's to fill.
  [[nodiscard]] virtual std::size_t remote(
      std::uint16_t rail, const memory::Slice& slice,
      std::span<wire::RemoteTarget, wire::kTargetsOfPageMax> targets) const noexcept = 0;
  // Whether remote() has an answer: all, later, or failed. Unlike that, it asks for nothing.
  [[nodiscard]] virtual KeysFound look(std::uint16_t rail,
                                       const memory::Slice& slice) const noexcept = 0;
};

}  // namespace simm::transport
