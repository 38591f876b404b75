// Replica: the second copy of an object whose namespace is kept twice (`namespaces[].replicas`).
// A replica is an object of its own: same tenant and key, but another namespace, another hash, and
// the slot that mirrors the object's slot. So every owner serves, evicts and moves a replica as any
// other object, and only the daemons that ask know which two objects belong together. The map keeps
// mirrored slots at different members, where it can (cluster/slot_map_builder.h).
//
// Only namespaces whose keys have one value for ever are kept twice. So either copy is the right
// one, whatever has become of the other.
//
// Each function is its own inverse: the replica of a replica is the object.
// Thread: any, pure functions and plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"

namespace simm::base {

constexpr Slot mirror_of(Slot slot) noexcept {
  return static_cast<Slot>(slot ^ (kSlotCount / 2));
}
constexpr std::uint64_t mirrored_group(std::uint64_t group) noexcept {
  return group ^ (std::uint64_t{1} << 63);  // the first bit of its slot
}
// Random constants: parts of the names that daemons of all releases agree on.
constexpr KeyHash replica_of(KeyHash hash) noexcept {
  return {hash.low ^ 0x6A09'E667'F3BC'C908, hash.high};
}
constexpr NamespaceId replica_of(NamespaceId name_space) noexcept {
  return {name_space.value ^ 0xBB67'AE85'84CA'A73B};
}

// The namespaces of a daemon's configuration that are kept twice.
class ReplicatedNamespaces {
public:
  using Entry = std::pair<TenantId, NamespaceId>;

  ReplicatedNamespaces() = default;
  explicit ReplicatedNamespaces(std::vector<Entry> entries) : entries_(std::move(entries)) {
    for (std::size_t i = 0, count = entries_.size(); i < count; ++i) {
      entries_.emplace_back(entries_[i].first, replica_of(entries_[i].second));
    }
    std::sort(entries_.begin(), entries_.end(), is_before);
  }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  // Whether what is in that namespace has a second copy: objects and replicas.
  [[nodiscard]] bool has(TenantId tenant, NamespaceId name_space) const noexcept {
    return std::binary_search(entries_.begin(), entries_.end(), Entry{tenant, name_space},
                              is_before);
  }

private:
  static bool is_before(const Entry& a, const Entry& b) noexcept {
    if (a.first.value != b.first.value) return a.first.value < b.first.value;
    return a.second.value < b.second.value;
  }

  std::vector<Entry> entries_;  // sorted, the namespaces of replicas among them
};

}  // namespace simm::base
