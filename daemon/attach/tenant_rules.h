// TenantRules: who an attaching process is. The listening socket decides when it has a tenant, else
// the first tenant with a matching uid, then gid, else "default". Nothing a client says matters.
// Thread: any (immutable).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/base/hash.h"
#include "daemon/base/ids.h"
#include "daemon/base/replica.h"
#include "daemon/base/tenant_weights.h"

namespace simm::control {

struct Tenant {
  std::string name;
  base::TenantId id;
  std::uint32_t quota_percent = 100;
  std::uint32_t weight = 1;
  std::uint64_t in_flight_bytes_max = 0;
  std::uint64_t bandwidth_max_bytes_per_s = 0;  // 0: no limit
  std::vector<std::string> gpu_lend = {};       // GPUs whose memory it may lend; "all": every one

  [[nodiscard]] bool may_lend(std::string_view gpu) const noexcept;
};

class TenantRules {
public:
  // `hasher` is the cluster's: tenants and namespaces have the same ids on every daemon.
  TenantRules(const base::Config& config, const base::KeyHasher& hasher);

  [[nodiscard]] const Tenant& resolve(std::string_view socket_tenant, uid_t uid,
                                      gid_t gid) const noexcept;
  [[nodiscard]] base::NamespaceId namespace_id(std::string_view name) const noexcept;

  // By the configuration: a key of that namespace has one value for ever. "": the default one.
  [[nodiscard]] bool is_immutable(base::TenantId tenant, std::string_view name) const noexcept;
  // By the configuration: namespaces whose objects are kept twice.
  [[nodiscard]] const base::ReplicatedNamespaces& replicated() const noexcept {
    return replicated_;
  }

  // All tenants, the default one first.
  [[nodiscard]] const std::vector<Tenant>& tenants() const noexcept { return tenants_; }

  // Null: no tenant of this daemon's configuration has that id.
  [[nodiscard]] const Tenant* find(base::TenantId id) const noexcept;

  // Of tenants().
  [[nodiscard]] base::TenantWeights weights() const;
  [[nodiscard]] std::vector<std::uint64_t> ids() const;  // of tenants(), in their order
  // Whether a client of this daemon, or of another one with this configuration, may belong to
  // another tenant than its neighbour. "default" counts where a section or a socket leads to it.
  [[nodiscard]] bool are_several() const noexcept { return are_several_; }

private:
  struct Rule {
    std::size_t tenant;
    std::int64_t id;
    bool is_group;
  };
  std::size_t add(const base::TenantConfig& config);

  base::KeyHasher hasher_;
  std::vector<Tenant> tenants_;
  std::vector<Rule> rules_;  // uids before gids
  struct Immutable {
    base::TenantId tenant;
    std::string name;
  };
  std::vector<Immutable> immutable_;
  base::ReplicatedNamespaces replicated_;
  bool are_several_ = false;
};

}  // namespace simm::control
