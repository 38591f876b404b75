// TenantAccount: what all sessions of one tenant together may use of this daemon: client memory
// mapped for them (bytes and regions), its pages that the daemon touches first, bytes a second, and
// namespaces open at once; and what they have moved. TenantAccounts has one for every tenant, and
// the budget of the whole daemon above them.
// Owned by the composition root; outlives sessions and regions. Thread: control; the budgets
// are charged from any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/attach/tenant_rules.h"
#include "daemon/base/config.h"
#include "daemon/base/ids.h"
#include "daemon/base/limits.h"
#include "daemon/memory/pin_budget.h"
#include "daemon/memory/touch_budget.h"
#include "daemon/session/tenant_bandwidth.h"
#include "daemon/session/tenant_traffic.h"

namespace simm::control {

class TenantAccount {
public:
  TenantAccount(const Tenant& tenant, const base::Config& config, memory::PinBudget& daemon,
                memory::TouchBudget& daemon_touches)
      : id_(tenant.id),
        pins_("tenant " + tenant.name, config.memory.map_bytes_tenant_max,
              config.memory.regions_tenant_max, &daemon),
        touches_(config.memory.touch_budget_bytes * memory::kTouchTenantShare, &daemon_touches),
        traffic_(config.threading.data_agents) {
    if (tenant.bandwidth_max_bytes_per_s != 0) bandwidth_.emplace(tenant.bandwidth_max_bytes_per_s);
  }

  [[nodiscard]] base::TenantId id() const noexcept { return id_; }
  [[nodiscard]] memory::PinBudget& pins() noexcept { return pins_; }
  [[nodiscard]] memory::TouchBudget& touches() noexcept { return touches_; }
  // Null: no limit.
  [[nodiscard]] session::TenantBandwidth* bandwidth() noexcept {
    return bandwidth_ ? &*bandwidth_ : nullptr;
  }
  // Of the sessions of that data agent.
  [[nodiscard]] session::TenantTraffic& traffic(std::size_t agent) { return traffic_.at(agent); }
  [[nodiscard]] session::TenantTrafficSum traffic_sum() const noexcept {
    session::TenantTrafficSum sum;
    for (const session::TenantTraffic& one : traffic_) {
      sum.got_bytes += one.got_bytes.value();
      sum.put_bytes += one.put_bytes.value();
      for (std::size_t i = 0; i < sum.held.size(); ++i) sum.held[i] += one.held[i].value();
    }
    return sum;
  }
  // The default one included.
  [[nodiscard]] std::size_t name_spaces() const noexcept {
    return sessions_by_name_space_.size() + 1;
  }

  // A session opens a namespace that it has not open yet, or is over. False: too many different
  // ones; the default namespace is always open.
  [[nodiscard]] bool open_name_space(base::NamespaceId name_space) {
    const auto found = sessions_by_name_space_.find(name_space.value);
    if (found != sessions_by_name_space_.end()) {
      ++found->second;
      return true;
    }
    if (sessions_by_name_space_.size() + 1 >= base::kNamespacesPerTenantMax) return false;
    sessions_by_name_space_.emplace(name_space.value, 1);
    return true;
  }
  void close_name_space(base::NamespaceId name_space) {
    const auto found = sessions_by_name_space_.find(name_space.value);
    if (found != sessions_by_name_space_.end() && --found->second == 0) {
      sessions_by_name_space_.erase(found);
    }
  }

private:
  const base::TenantId id_;
  memory::PinBudget pins_;
  memory::TouchBudget touches_;
  std::optional<session::TenantBandwidth> bandwidth_;
  std::vector<session::TenantTraffic> traffic_;  // by data agent
  std::map<std::uint64_t, std::uint32_t> sessions_by_name_space_;
};

class TenantAccounts {
public:
  TenantAccounts(const TenantRules& rules, const base::Config& config);

  // `tenant` is one of the rules'.
  [[nodiscard]] TenantAccount& of(const Tenant& tenant) noexcept;

private:
  memory::PinBudget daemon_;
  memory::TouchBudget daemon_touches_;
  std::vector<std::unique_ptr<TenantAccount>> accounts_;
};

}  // namespace simm::control
