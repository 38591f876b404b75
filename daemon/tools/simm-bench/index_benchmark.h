// store.index_bytes and store.index_ops: memory and speed of the hash table of a store, while it
// grows from nothing, with all entries, and while entries come and go. Thread: the main thread.
#pragma once

#include <cstdint>

#include "daemon/tools/simm-bench/result.h"
#include "simm/expected.h"

namespace simm::bench {

// `entries` > 0. Fails when memory is refused, and when an entry is not found.
Outcome measure_index(std::uint32_t entries, ResultPrinter& printer);

}  // namespace simm::bench
