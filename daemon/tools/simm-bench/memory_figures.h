// What /proc says about memory. Thread: any.
#pragma once

#include <cstdint>

namespace simm::bench {

// Private memory of this process that takes room now; shared mappings are none. 0: not to be had.
std::uint64_t private_bytes();
// What the machine can still give out without swapping. 0: not to be had.
std::uint64_t available_bytes();

}  // namespace simm::bench
