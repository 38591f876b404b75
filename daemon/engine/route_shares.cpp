#include "daemon/engine/route_shares.h"

#include <bit>

#include "simm/check.h"

namespace simm::engine {
namespace {

// Odd, near 2^64 divided by the golden ratio (Knuth, volume 3, 6.4: multiplicative hashing).
constexpr std::uint64_t kSpread = 0x9e37'79b9'7f4a'7c15;

}  // namespace

RouteShares::RouteShares(std::uint32_t requests)
    : mask_(std::bit_ceil(2 * requests) - 1),
      entries_(std::make_unique<Entry[]>(std::size_t{mask_} + 1)) {}

std::uint32_t RouteShares::home_of(base::TenantId tenant, transport::Route route) const noexcept {
  const std::uint64_t way = std::uint64_t{route.peer.value} << 16 | route.shard;
  return static_cast<std::uint32_t>((tenant.value ^ way * kSpread) * kSpread >> 32) & mask_;
}

std::uint32_t RouteShares::place_of(base::TenantId tenant, transport::Route route) const noexcept {
  std::uint32_t at = home_of(tenant, route);
  while (entries_[at].held.requests != 0 &&
         (entries_[at].tenant != tenant || entries_[at].route != route)) {
    at = (at + 1) & mask_;
  }
  return at;
}

void RouteShares::add(base::TenantId tenant, transport::Route route,
                      std::uint32_t key_bytes) noexcept {
  Entry& entry = entries_[place_of(tenant, route)];
  entry.tenant = tenant;
  entry.route = route;
  ++entry.held.requests;
  entry.held.key_bytes += key_bytes;
}

void RouteShares::remove(base::TenantId tenant, transport::Route route,
                         std::uint32_t key_bytes) noexcept {
  std::uint32_t hole = place_of(tenant, route);
  Held& held = entries_[hole].held;
  SIMM_CHECK(held.requests != 0 && held.key_bytes >= key_bytes);
  held.key_bytes -= key_bytes;
  if (--held.requests != 0) return;
  // What lies behind the hole and was only pushed there by others moves up.
  for (std::uint32_t at = (hole + 1) & mask_; entries_[at].held.requests != 0;
       at = (at + 1) & mask_) {
    const std::uint32_t home = home_of(entries_[at].tenant, entries_[at].route);
    if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
    entries_[hole] = entries_[at];
    entries_[at].held = {};
    hole = at;
  }
}

}  // namespace simm::engine
