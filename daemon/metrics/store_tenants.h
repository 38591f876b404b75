// StoreTenants: what each tenant has of this daemon's stores, all shards together, for simmctl and
// as metrics. Tenants of the configuration have names; another one, of whom another daemon of the
// cluster knows, is "#" and its id in hex. When these are more than kShownMax together, those that
// are left are added up as "#others". Owned by the composition root. Thread: control.
#pragma once

#include <string>
#include <vector>

#include "daemon/attach/tenant_rules.h"
#include "daemon/base/limits.h"
#include "daemon/metrics/metrics_text.h"
#include "daemon/store/eviction/tenant_use.h"

namespace simm::control {

class StoreTenants {
public:
  static constexpr std::size_t kShownMax = base::kTenantsMax + 1;  // with the default one

  struct Row {
    std::string name;
    store::TenantUse use;  // sums; the weight is the same everywhere
  };

  // Both outlive it; nobody else reads the tables.
  StoreTenants(std::vector<store::TenantTables*> tables, const TenantRules& rules)
      : tables_(std::move(tables)), rules_(rules) {}

  // In the order of their names.
  [[nodiscard]] std::vector<Row> rows() const;
  // A list of objects, one for each tenant.
  [[nodiscard]] std::string json() const;
  void write_metrics(MetricsText& text) const;

private:
  // Empty: of the configuration it is not.
  [[nodiscard]] std::string name_of(base::TenantId tenant) const;

  const std::vector<store::TenantTables*> tables_;
  const TenantRules& rules_;
};

}  // namespace simm::control
