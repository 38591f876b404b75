// Taking pages back from a daemon that is alive but does not answer.
//
// The daemon has the region's memory file mapped and may, when it runs on, write into the slice of
// a get that has long timed out. Nobody can stop that write, but it can be made to miss. A
// private (copy-on-write) mapping of the same file range replaces the mapping of the slice's pages,
// at the same address, and every page of it is copied at once. The exchange is atomic for other
// threads: what they wrote before is in the file's page and so in the copy. What they write
// afterwards goes to the copy. Thread: any. Blocking for about as long as
// copying the slice takes.
#pragma once

#include <cstdint>

#include "libclient/region_record.h"

namespace simm::detail {

// False when it is impossible (no descriptor of the memory, no pages for the copies): the slice is
// then still the daemon's. Marks its pages before the exchange, see RegionRecord::taken_back().
// The caller holds the region (begin_use) and checked the range.
[[nodiscard]] bool take_back(RegionRecord& region, std::uint64_t offset,
                             std::uint64_t length) noexcept;

// Around fork(), behind the locks of all cores: no exchange is half done in the child.
void take_back_before_fork() noexcept;
void take_back_after_fork() noexcept;  // in the parent and in the child

}  // namespace simm::detail
