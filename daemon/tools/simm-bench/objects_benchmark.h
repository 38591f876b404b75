// store.objects: a whole store with many objects, as a server uses one: puts, probes and reads of
// keys that are there or not, puts that evict; and the memory that an object costs besides its
// payload. Objects of 4 KiB with keys of 66 bytes, each a group of its own, in an arena that is
// address space only: no payload is touched. Thread: the main thread.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

// An error when the machine has too little memory for so many.
Outcome measure_objects(std::uint32_t objects, ResultPrinter& printer);

}  // namespace simm::bench
