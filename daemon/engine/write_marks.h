// WriteMarks: when this node last wrote a key, for whoever keeps copies of objects of other
// daemons. Each engine of the daemon marks the keys of a put or remove before it completes it
// towards its client; a copy whose fetch began under another mark is old. So nobody on this node
// reads what was there before a write of this node's own has completed, and no agent has to be
// asked.
//
// A fixed number of counters, chosen by the key's hash. Keys that share one only cost a fetch: at
// worst, a storm of writes makes each reader ask the owner.
// Shared by all data agents of a daemon. Thread: any.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "daemon/base/key_hash.h"
#include "simm/check.h"

namespace simm::engine {

class WriteMarks {
public:
  // `count` is a power of two.
  explicit WriteMarks(std::uint32_t count = 1u << 18)
      : mask_(count - 1), marks_(std::make_unique<std::atomic<std::uint32_t>[]>(count)) {
    SIMM_CHECK(std::has_single_bit(count));
  }

  // What the writer saw before happens before whatever a reader of the new mark does.
  void mark(base::KeyHash hash) noexcept {
    marks_[hash.high & mask_].fetch_add(1, std::memory_order_release);
  }
  [[nodiscard]] std::uint32_t of(base::KeyHash hash) const noexcept {
    return marks_[hash.high & mask_].load(std::memory_order_acquire);
  }

private:
  const std::uint64_t mask_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]> marks_;
};

}  // namespace simm::engine
