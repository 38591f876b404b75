// IndexFill: many entries into an empty HashIndex at once, by the threads of a crew. Entries go to
// parts of neighbouring buckets, so that each thread fills buckets that no other one looks at, and
// that stay in its cache. What does not fit into the first line of its bucket is inserted at last.
// Thread: the one that recovers.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/store/pool/crew_array.h"
#include "daemon/store/pool/recovery_crew.h"
#include "daemon/store/space/hash_index.h"

namespace simm::store {

class IndexFill {
public:
  struct Entry {
    std::uint32_t tag;  // low half of the hash
    std::uint32_t number;
  };
  // Of two entries, any thread.
  using Compare = std::function<bool(std::uint32_t a, std::uint32_t b)>;
  using Drop = std::function<void(std::uint32_t number)>;

  // `same`: both name the same object. Then the one that is `newer` stays, and `drop` is told of
  // the other. Both outlive the fill.
  IndexFill(HashIndex& index, const Compare& same, const Compare& newer, const Drop& drop) noexcept
      : index_(index), same_(same), newer_(newer), drop_(drop) {}

  // Returns how many entries were dropped. Throws std::bad_alloc. The crew advances by one for each
  // entry. When it is stopped the index is of no use.
  std::uint64_t run(const CrewArray<Entry>& entries, RecoveryCrew& crew);

private:
  // Whether the entry is one that has to be in the index and is not.
  bool is_new(const Entry& entry, std::uint64_t& dropped) noexcept;

  HashIndex& index_;
  const Compare& same_;
  const Compare& newer_;
  const Drop& drop_;
};

}  // namespace simm::store
