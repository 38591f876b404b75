// HotReport: the keys that the shards of this daemon are asked for most, for simmctl and as
// metrics. Keys are hashes: who reads them learns no name of a tenant's key. A list is bounded
// whatever clients do, and no metric has a key as a label.
// Owned by the composition root. Thread: control.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "daemon/attach/tenant_rules.h"
#include "daemon/base/hot_table.h"
#include "daemon/metrics/metrics_text.h"

namespace simm::control {

class HotReport {
public:
  static constexpr std::size_t kKeysShownMax = 64;  // of all shards together

  // By data agent; null: it serves no shard. The tables and rules outlive the report, and nobody
  // else reads the tables. `owner`: the name of this daemon.
  HotReport(std::vector<base::HotTables*> tables, const TenantRules& rules, std::string owner)
      : tables_(std::move(tables)), rules_(rules), owner_(std::move(owner)) {}

  // Each shard with its hottest key, and the hottest keys of all. Shares are percents.
  enum class Names : bool { left_out, shown };  // of tenants and namespaces
  [[nodiscard]] std::string json(Names names = Names::shown) const;
  // Nothing while no shard has been asked for anything.
  void write_metrics(MetricsText& text) const;

private:
  struct Use;
  struct Row;
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] std::string tenant_name(base::TenantId tenant) const;
  [[nodiscard]] std::string name_space_name(base::NamespaceId name_space) const;

  const std::vector<base::HotTables*> tables_;
  const TenantRules& rules_;
  const std::string owner_;
};

}  // namespace simm::control
