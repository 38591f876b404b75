// PageHasher: the two hashes of a name. The key hash finds an object, the group hash decides which
// shard owns it. Both are seeded with the cluster's secret seed and with the tenant and namespace.
// So the same key of two tenants has nothing in common, and nobody outside can look for collisions.
// Algorithm: XXH3 with a seed (xxhash 0.8 specification), 128 and 64 bits.
// Thread: any (immutable).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"
#include "daemon/transport/request.h"

namespace simm::engine {

class PageHasher {
public:
  explicit PageHasher(std::uint64_t cluster_seed) noexcept : cluster_seed_(cluster_seed) {}

  // The seeds of one (tenant, namespace): computed once for a batch.
  struct Scope {
    std::uint64_t key_seed = 0;
    std::uint64_t group_seed = 0;
  };
  Scope scope(base::TenantId tenant, base::NamespaceId name_space) const noexcept;

  static base::KeyHash key_hash(Scope scope, std::string_view key) noexcept;
  static std::uint64_t group_hash(Scope scope, std::string_view key) noexcept;

  // Fills hash and group from the page's key.
  static void hash(Scope scope, transport::PageRequest& page) noexcept;
  static void hash_all(Scope scope, std::span<transport::PageRequest> pages) noexcept;
  // Of the first pages, whose keys have at most so many bytes, or of the first one. The others.
  static std::span<transport::PageRequest> hash_first(Scope scope,
                                                      std::span<transport::PageRequest> pages,
                                                      std::uint64_t key_bytes_max) noexcept;

private:
  std::uint64_t cluster_seed_;
};

}  // namespace simm::engine
