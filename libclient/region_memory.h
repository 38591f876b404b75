// Making the memory of regions: shared memory files of our own and descriptors of the caller.
// Thread: any; blocking (a large region is faulted in here).
#pragma once

#include <cstdint>

#include "libclient/region_record.h"
#include "simm/expected.h"

namespace simm::detail {

// A sealed memory file of `bytes`, mapped. no_space: not enough memory; invalid_argument: options.
Expected<RegionMemory> make_shared_memory(std::uint64_t bytes, const AllocateOptions& options);

// A range of the caller's memory file; `address` where the caller has it mapped, or null. The
// descriptor is duplicated: the caller's stays the caller's.
Expected<RegionMemory> take_descriptor(int fd, std::uint64_t offset, std::uint64_t bytes,
                                       void* address, const RegisterOptions& options);

// Makes every page of a writable mapping present, with a few threads when it is large. Best effort:
// what could not be made present is so at its first touch.
void prefault(std::byte* address, std::uint64_t bytes) noexcept;

}  // namespace simm::detail
