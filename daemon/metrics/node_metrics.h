// NodeMetrics: what a daemon with data agents has to say besides its counters: who is attached,
// with how much memory of which kind, and what moved, by tenant (at most base::kTenantsMax + 1 of
// them are configured); what each tenant has of the store; its place in the cluster; and its
// connections to other daemons, of the first kPeersShown by name. Owned by the composition root.
// Thread: control.
#pragma once

#include <functional>
#include <utility>

#include "daemon/attach/attach_server.h"
#include "daemon/attach/tenant_rules.h"
#include "daemon/metrics/hot_report.h"
#include "daemon/metrics/metrics_source.h"
#include "daemon/metrics/store_tenants.h"
#include "daemon/peers/cluster_presence.h"

namespace simm::control {

class NodeMetrics final : public MetricsSource {
public:
  static constexpr std::size_t kPeersShown = 256;

  // `cluster` is null for a daemon that is in none.
  NodeMetrics(const AttachServer& server, const TenantRules& tenants,
              const ClusterPresence* cluster)
      : server_(server), tenants_(tenants), cluster_(cluster) {}

  // At set-up; it outlives the metrics. Without it nothing is said of the store by tenant.
  void show_tenants(const StoreTenants& tenants) noexcept { store_tenants_ = &tenants; }

  // At set-up, the same of hot keys.
  void show_hot_keys(const HotReport& hot_keys) noexcept { hot_keys_ = &hot_keys; }

  // At set-up: asked whether the pool is still being recovered. Not ready for so long.
  void show_recovery(std::function<bool()> recovers) { recovers_ = std::move(recovers); }

  // It stops: not ready from now on.
  void begin_stop() noexcept { stopping_ = true; }

  void write_metrics(MetricsText& text) override;
  [[nodiscard]] std::string not_ready() const override;

private:
  void write_clients(MetricsText& text) const;
  void write_cluster(MetricsText& text) const;
  void write_peers(MetricsText& text) const;

  const AttachServer& server_;
  const TenantRules& tenants_;
  const ClusterPresence* const cluster_;
  const StoreTenants* store_tenants_ = nullptr;
  const HotReport* hot_keys_ = nullptr;
  std::function<bool()> recovers_;
  bool stopping_ = false;
};

}  // namespace simm::control
