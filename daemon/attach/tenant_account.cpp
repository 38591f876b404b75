#include "daemon/attach/tenant_account.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::control {

TenantAccounts::TenantAccounts(const TenantRules& rules, const base::Config& config)
    : daemon_("daemon", config.memory.map_bytes_total_max, config.memory.regions_total_max),
      daemon_touches_(config.memory.touch_budget_bytes * memory::kTouchDaemonShare) {
  for (const Tenant& tenant : rules.tenants()) {
    accounts_.push_back(std::make_unique<TenantAccount>(tenant, config, daemon_, daemon_touches_));
  }
}

TenantAccount& TenantAccounts::of(const Tenant& tenant) noexcept {
  const auto found = std::find_if(accounts_.begin(), accounts_.end(),
                                  [&](const auto& account) { return account->id() == tenant.id; });
  SIMM_CHECK(found != accounts_.end());
  return **found;
}

}  // namespace simm::control
