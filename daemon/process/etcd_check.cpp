#include "daemon/process/etcd_check.h"

#include <limits>
#include <utility>

#include "daemon/base/real_clock.h"
#include "daemon/base/sanitize.h"
#include "daemon/etcd/etcd_gateway.h"
#include "daemon/etcd/etcd_state.h"
#include "daemon/process/etcd_settings.h"

namespace simm {
namespace {

Expected<std::string> look(etcd::EtcdConfig config, const std::string& cluster) {
  const std::string at = config.endpoints.front().text();
  auto gateway = etcd::EtcdGateway::make(std::move(config));
  if (!gateway) return std::move(gateway).error();
  const auto leader = (*gateway)->get(etcd::leader_key(cluster));
  if (!leader) return leader.error();
  // The condition is never met, but etcd looks first whether the user may write.
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const std::string key = etcd::state_key(cluster);
  const auto written =
      (*gateway)->put_if({{key, etcd::EtcdCondition::What::created, kNever}}, {key, ""});
  if (!written) return written.error();
  const base::RealClock clock;
  const etcd::EtcdElection nobody(**gateway, clock, "", "");
  const auto state = etcd::EtcdState(**gateway, nobody, cluster).load();
  if (!state) return state.error();
  return at + " answers: " +
         (state->has_value() ? "a state of epoch " + std::to_string(state->value().epoch)
                             : std::string("no state")) +
         ", " +
         (leader->has_value() ? base::sanitize(leader->value().bytes) + " leads"
                              : std::string("no manager leads"));
}

}  // namespace

std::vector<Expected<std::string>> check_etcd(const base::Config& config) {
  std::vector<Expected<std::string>> found;
  auto settings = etcd_settings(config);
  if (!settings) {
    found.emplace_back(std::move(settings).error());
    return found;
  }
  for (const http::HttpEndpoint& endpoint : settings->endpoints) {
    etcd::EtcdConfig one = *settings;
    one.endpoints = {endpoint};
    found.push_back(look(std::move(one), config.cluster.name));
  }
  return found;
}

}  // namespace simm
