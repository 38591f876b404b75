// RouteShares: how many credits of each route each tenant holds, and how many it has to leave to
// the others. The rule is that of all shares here (session/tenant_share.h): a tenant without any
// may take the last one, another one has at most kFactor times what then stays free. So whoever
// comes later finds a credit, and need not wait for the deadlines of somebody else.
//
// A hash table with linear probing (Knuth, "The Art of Computer Programming", volume 3, 6.4,
// algorithms L and R): an entry for each tenant and route with a request out, so it is never full.
// Owned by an Engine. Thread: its data agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/ids.h"
#include "daemon/transport/transport.h"

namespace simm::engine {

class RouteShares {
public:
  static constexpr std::uint32_t kFactor = 4;

  // At most `requests` are out at a time.
  explicit RouteShares(std::uint32_t requests);

  // What has to stay free on `route` when `tenant` posts one more request there.
  [[nodiscard]] std::uint32_t keep(base::TenantId tenant, transport::Route route) const noexcept {
    const std::uint32_t held = entries_[place_of(tenant, route)].held;
    return held == 0 ? 0 : (held + kFactor) / kFactor;
  }
  void add(base::TenantId tenant, transport::Route route) noexcept;
  void remove(base::TenantId tenant, transport::Route route) noexcept;

private:
  struct Entry {
    base::TenantId tenant;
    transport::Route route;
    std::uint32_t held = 0;  // 0: free
  };
  [[nodiscard]] std::uint32_t home_of(base::TenantId tenant, transport::Route route) const noexcept;
  // The entry of both, or the free one where it belongs.
  [[nodiscard]] std::uint32_t place_of(base::TenantId tenant,
                                       transport::Route route) const noexcept;

  std::uint32_t mask_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace simm::engine
