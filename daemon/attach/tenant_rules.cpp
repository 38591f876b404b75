#include "daemon/attach/tenant_rules.h"

#include <algorithm>

#include "ipc/text_list.h"

namespace simm::control {
namespace {

// A kind in front keeps a tenant and a namespace of one name apart.
std::uint64_t name_id(const base::KeyHasher& hasher, std::string_view kind, std::string_view name) {
  return hasher(std::string(kind) + ":" + std::string(name)).low;
}

}  // namespace

bool Tenant::may_lend(std::string_view gpu) const noexcept {
  return std::any_of(gpu_lend.begin(), gpu_lend.end(),
                     [gpu](const std::string& named) { return named == gpu || named == "all"; });
}

TenantRules::TenantRules(const base::Config& config, const base::KeyHasher& hasher)
    : hasher_(hasher) {
  const auto configured_default =
      std::find_if(config.tenants.begin(), config.tenants.end(),
                   [](const base::TenantConfig& tenant) { return tenant.name == "default"; });
  add(configured_default != config.tenants.end()
          ? *configured_default
          : base::TenantConfig{"default", {}, {}, 100, 1, base::kInFlightBytesDefault, 0});
  std::vector<Rule> groups;
  for (const base::TenantConfig& tenant : config.tenants) {
    const std::size_t index = add(tenant);
    for (const std::int64_t uid : tenant.uids) rules_.push_back({index, uid, false});
    for (const std::int64_t gid : tenant.gids) groups.push_back({index, gid, true});
  }
  rules_.insert(rules_.end(), groups.begin(), groups.end());
  // A tenant that only a socket names needs no section of its own.
  for (const base::SocketConfig& socket : config.sockets) {
    if (!socket.tenant.empty()) {
      add({socket.tenant, {}, {}, 100, 1, base::kInFlightBytesDefault, 0});
    }
  }
  std::vector<base::ReplicatedNamespaces::Entry> replicated;
  for (const base::NamespaceConfig& name_space : config.namespaces) {
    const base::TenantId tenant{name_id(hasher_, "tenant", name_space.tenant)};
    if (name_space.immutable) immutable_.push_back({tenant, name_space.name});
    if (name_space.replicas > 1) replicated.emplace_back(tenant, namespace_id(name_space.name));
  }
  replicated_ = base::ReplicatedNamespaces(std::move(replicated));
  const bool is_default_used =
      configured_default != config.tenants.end() ||
      std::any_of(config.sockets.begin(), config.sockets.end(),
                  [](const base::SocketConfig& socket) {
                    return socket.tenant.empty() || socket.tenant == "default";
                  });
  are_several_ = tenants_.size() > (is_default_used ? 1u : 2u);
}

std::size_t TenantRules::add(const base::TenantConfig& config) {
  for (std::size_t i = 0; i < tenants_.size(); ++i) {
    if (tenants_[i].name == config.name) return i;
  }
  tenants_.push_back({config.name,
                      {name_id(hasher_, "tenant", config.name)},
                      config.quota_percent,
                      config.weight,
                      config.in_flight_bytes_max,
                      config.bandwidth_max_bytes_per_s,
                      ipc::text_list(config.gpu_lend)});
  return tenants_.size() - 1;
}

const Tenant& TenantRules::resolve(std::string_view socket_tenant, uid_t uid,
                                   gid_t gid) const noexcept {
  if (!socket_tenant.empty()) {
    for (const Tenant& tenant : tenants_) {
      if (tenant.name == socket_tenant) return tenant;
    }
  }
  for (const Rule& rule : rules_) {
    if (rule.id == static_cast<std::int64_t>(rule.is_group ? gid : uid)) {
      return tenants_[rule.tenant];
    }
  }
  return tenants_.front();
}

base::TenantWeights TenantRules::weights() const {
  std::vector<base::TenantWeights::Entry> all;
  for (const Tenant& tenant : tenants_) {
    if (tenant.weight != 1) all.push_back({tenant.id, tenant.weight});
  }
  return base::TenantWeights(std::move(all));
}

std::vector<std::uint64_t> TenantRules::ids() const {
  std::vector<std::uint64_t> all;
  for (const Tenant& tenant : tenants_) all.push_back(tenant.id.value);
  return all;
}

const Tenant* TenantRules::find(base::TenantId id) const noexcept {
  const auto found = std::find_if(tenants_.begin(), tenants_.end(),
                                  [id](const Tenant& tenant) { return tenant.id == id; });
  return found == tenants_.end() ? nullptr : &*found;
}

bool TenantRules::is_immutable(base::TenantId tenant, std::string_view name) const noexcept {
  return std::any_of(immutable_.begin(), immutable_.end(), [&](const Immutable& known) {
    return known.tenant == tenant && known.name == name;
  });
}

base::NamespaceId TenantRules::namespace_id(std::string_view name) const noexcept {
  // The default namespace has no name.
  return {name.empty() ? 0 : name_id(hasher_, "namespace", name)};
}

}  // namespace simm::control
