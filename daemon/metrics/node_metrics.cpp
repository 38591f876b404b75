#include "daemon/metrics/node_metrics.h"

#include <array>
#include <map>
#include <string>

namespace simm::control {
namespace {

constexpr std::array<ipc::RegionRequestKind, 5> kKinds = {
    ipc::RegionRequestKind::shared, ipc::RegionRequestKind::adopted, ipc::RegionRequestKind::staged,
    ipc::RegionRequestKind::foreign, ipc::RegionRequestKind::gpu};

struct RegionSum {
  std::uint64_t regions = 0;
  std::uint64_t bytes = 0;
};

struct TenantSum {
  std::uint64_t sessions = 0;
  session::TenantTrafficSum moved;
  std::array<RegionSum, ipc::kRegionRequestKindCount> kinds;
};

}  // namespace

std::string NodeMetrics::not_ready() const {
  if (stopping_) return "stopping";
  if (recovers_ && recovers_()) return "the pool is being recovered";
  if (cluster_ != nullptr && cluster_->member().map() == nullptr) {
    return "there is no map of the cluster yet: " + cluster_->status();
  }
  return "";
}

void NodeMetrics::write_metrics(MetricsText& text) {
  write_clients(text);
  if (store_tenants_ != nullptr) store_tenants_->write_metrics(text);
  if (hot_keys_ != nullptr) hot_keys_->write_metrics(text);
  if (cluster_ == nullptr) return;
  write_cluster(text);
  write_peers(text);
}

void NodeMetrics::write_clients(MetricsText& text) const {
  std::map<std::string_view, TenantSum> sums;
  for (const Tenant& tenant : tenants_.tenants()) {
    sums[tenant.name].moved = server_.services().accounts.of(tenant).traffic_sum();
  }
  for (const Attachment* attachment : server_.attachments()) {
    TenantSum& sum = sums[attachment->tenant().name];
    ++sum.sessions;
    for (const auto& [id, region] : attachment->regions()) {
      RegionSum& kind = sum.kinds.at(static_cast<std::size_t>(region.kind));
      ++kind.regions;
      kind.bytes += region.bytes;
    }
  }
  text.family("simm_sessions", MetricType::gauge, "Connected client processes.");
  for (const auto& [name, sum] : sums) text.sample({{"tenant", name}}, sum.sessions);
  text.family("simm_regions", MetricType::gauge, "Memory regions of clients.");
  for (const auto& [name, sum] : sums) {
    for (const ipc::RegionRequestKind kind : kKinds) {
      text.sample({{"tenant", name}, {"kind", ipc::region_kind_name(kind)}},
                  sum.kinds[static_cast<std::size_t>(kind)].regions);
    }
  }
  text.family("simm_region_bytes", MetricType::gauge, "Memory in those regions.");
  for (const auto& [name, sum] : sums) {
    for (const ipc::RegionRequestKind kind : kKinds) {
      text.sample({{"tenant", name}, {"kind", ipc::region_kind_name(kind)}},
                  sum.kinds[static_cast<std::size_t>(kind)].bytes);
    }
  }
  text.family("simm_tenant_bytes_total", MetricType::counter,
              "Bytes that a tenant's clients got or put through this daemon.");
  for (const auto& [name, sum] : sums) {
    text.sample({{"tenant", name}, {"how", "get"}}, sum.moved.got_bytes);
    text.sample({{"tenant", name}, {"how", "put"}}, sum.moved.put_bytes);
  }
  text.family("simm_tenant_held_total", MetricType::counter,
              "Submissions of a tenant that had to wait for a limit.");
  for (const auto& [name, sum] : sums) {
    for (std::size_t i = 0; i < sum.moved.held.size(); ++i) {
      text.sample({{"tenant", name}, {"limit", session::kHeldForNames[i]}}, sum.moved.held[i]);
    }
  }
}

void NodeMetrics::write_cluster(MetricsText& text) const {
  const cluster::ClusterMember& member = cluster_->member();
  text.gauge("simm_cluster_manager_connected", member.state() == cluster::LinkState::joined ? 1 : 0,
             "1: this daemon has joined a manager; 0: it goes on with the last map.");
  text.gauge("simm_cluster_epoch", member.epoch(), "Epoch of the newest map that is known here.");
  text.gauge("simm_cluster_agents_epoch", cluster_->agents_epoch(),
             "Epoch of the oldest map that a data agent uses.");
  text.gauge("simm_cluster_owners", member.map() == nullptr ? 0 : member.map()->members().size(),
             "Daemons that own slots of the newest map.");
  text.gauge("simm_cluster_slots", cluster_->slots_here(),
             "Slots of the newest map that this daemon owns.");
  const SlotHandover& handover = cluster_->handover();
  text.gauge("simm_drain_state", static_cast<std::uint64_t>(handover.course().state()),
             "Drain on request; 0: none, 1: under way, 2: done, 3: cut short by its deadline.");
  const SlotHandover::Left left = handover.left();
  text.gauge("simm_moves_left_objects", left.objects,
             "Objects that have yet to leave with their slots; in a drain all, else an estimate.");
  text.gauge("simm_moves_left_bytes", left.bytes, "Bytes of those.");
  text.gauge("simm_drain_lost_objects", handover.lost().objects,
             "Objects that the deadline of the last drain has left behind.");
}

void NodeMetrics::write_peers(MetricsText& text) const {
  struct Links {
    std::uint64_t open = 0;
    std::uint64_t missing = 0;
  };
  // An old and a new life of one daemon may both be known: they are one here.
  std::map<std::string, Links> peers;
  for (const ClusterLinks::PeerView& view : cluster_->links().peer_views()) {
    if (view.name.empty()) continue;
    peers[view.name].open += view.open;
    peers[view.name].missing += view.connections - view.open;
  }
  std::array<std::uint64_t, 3> by_state{};
  for (const auto& [name, links] : peers) {
    by_state[links.missing == 0 ? 0 : links.open > 0 ? 1 : 2] += 1;
  }
  text.family("simm_peers", MetricType::gauge, "Other daemons of the map, by their connections.");
  text.sample({{"state", "connected"}}, by_state[0]);
  text.sample({{"state", "partly"}}, by_state[1]);
  text.sample({{"state", "unreachable"}}, by_state[2]);
  text.family("simm_peer_connections", MetricType::gauge,
              "Connections to another daemon; of at most 256 daemons.");
  std::size_t shown = 0;
  for (const auto& [name, links] : peers) {
    if (++shown > kPeersShown) break;
    text.sample({{"peer", name}, {"state", "open"}}, links.open);
    text.sample({{"peer", name}, {"state", "missing"}}, links.missing);
  }
  text.gauge("simm_cluster_incoming_connections", cluster_->links().incoming_links(),
             "Connections that data agents of other daemons have to this one.");
}

}  // namespace simm::control
