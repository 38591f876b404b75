#include "daemon/engine/page_hasher.h"

// Keys are short: the call through the library costs as much as hashing them.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "daemon/engine/group_key.h"

namespace simm::engine {

PageHasher::Scope PageHasher::scope(base::TenantId tenant,
                                    base::NamespaceId name_space) const noexcept {
  const std::array<std::uint64_t, 2> names = {tenant.value, name_space.value};
  const XXH128_hash_t seeds = XXH3_128bits_withSeed(names.data(), sizeof names, cluster_seed_);
  return {seeds.low64, seeds.high64};
}

base::KeyHash PageHasher::key_hash(Scope scope, std::string_view key) noexcept {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), scope.key_seed);
  return {hash.low64, hash.high64};
}

std::uint64_t PageHasher::group_hash(Scope scope, std::string_view key) noexcept {
  const std::string_view group = group_of(key);
  return XXH3_64bits_withSeed(group.data(), group.size(), scope.group_seed);
}

void PageHasher::hash(Scope scope, transport::PageRequest& page) noexcept {
  const std::string_view key(page.key, page.key_bytes);
  page.hash = key_hash(scope, key);
  page.group = group_hash(scope, key);
}

void PageHasher::hash_all(Scope scope, std::span<transport::PageRequest> pages) noexcept {
  for (transport::PageRequest& page : pages) hash(scope, page);
}

std::span<transport::PageRequest> PageHasher::hash_first(Scope scope,
                                                         std::span<transport::PageRequest> pages,
                                                         std::uint64_t key_bytes_max) noexcept {
  std::size_t at = 0;
  std::uint64_t key_bytes = 0;
  for (; at < pages.size(); ++at) {
    key_bytes += pages[at].key_bytes;
    if (key_bytes > key_bytes_max && at > 0) break;
    hash(scope, pages[at]);
  }
  return pages.subspan(at);
}

}  // namespace simm::engine
