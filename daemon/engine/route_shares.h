// RouteShares: how many credits of each route each tenant holds, and how many it has to leave to
// the others. The rule is that of all shares here (session/tenant_share.h): a tenant without any
// may take the last one, another one has at most kFactor times what then stays free. So whoever
// comes later finds a credit, and need not wait for the deadlines of somebody else. Look-ups carry
// nothing but their keys, so those are counted, too.
//
// A hash table with linear probing (Knuth, "The Art of Computer Programming", volume 3, 6.4,
// algorithms L and R). It has an entry for each tenant and route with a request out, so it is never
// full.
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

  struct Held {
    std::uint32_t requests = 0;
    std::uint32_t key_bytes = 0;  // of look-ups

    // What has to stay free when one more request is posted.
    [[nodiscard]] std::uint32_t keep() const noexcept {
      return requests == 0 ? 0 : (requests + kFactor) / kFactor;
    }
    // One message is always allowed.
    [[nodiscard]] bool has_room_for(std::uint32_t more, std::uint32_t most) const noexcept {
      return more == 0 || key_bytes == 0 || (more <= most && key_bytes <= most - more);
    }
  };

  [[nodiscard]] Held of(base::TenantId tenant, transport::Route route) const noexcept {
    return entries_[place_of(tenant, route)].held;
  }
  // A request of `key_bytes`; 0: it is no look-up.
  void add(base::TenantId tenant, transport::Route route, std::uint32_t key_bytes) noexcept;
  void remove(base::TenantId tenant, transport::Route route, std::uint32_t key_bytes) noexcept;

private:
  struct Entry {
    base::TenantId tenant;
    transport::Route route;
    Held held;  // no request: free
  };
  [[nodiscard]] std::uint32_t home_of(base::TenantId tenant, transport::Route route) const noexcept;
  // The entry of both, or the free one where it belongs.
  [[nodiscard]] std::uint32_t place_of(base::TenantId tenant,
                                       transport::Route route) const noexcept;

  std::uint32_t mask_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace simm::engine
