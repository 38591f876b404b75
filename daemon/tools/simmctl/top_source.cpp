#include "daemon/tools/simmctl/top_source.h"

#include <cmath>
#include <utility>

namespace simm::ctl {

using nlohmann::ordered_json;

Expected<TopLook> TopSource::look() {
  if (!client_) {
    auto reached = reach(admin_);
    if (!reached) return std::move(reached).error();
    client_.emplace(std::move(*reached));
  }
  auto found = ask();
  if (!found) client_.reset();
  return found;
}

Expected<TopLook> TopSource::ask() {
  auto about = daemon();
  if (!about) return about;
  if (of_cluster_ || about->value("role", "") == "manager") return of_cluster(std::move(*about));
  return of_daemon(std::move(*about));
}

// What a title needs, of what `status` says.
Expected<ordered_json> TopSource::daemon() {
  const auto status = ask_json(*client_, "status");
  if (!status) return status.error();
  ordered_json out;
  for (const char* const name : {"role", "pid", "uptime_ms", "version", "sessions", "pool_bytes"}) {
    if (status->contains(name)) out[name] = (*status)[name];
  }
  const auto cluster = status->find("cluster");
  if (cluster != status->end() && cluster->is_object()) out["name"] = cluster->value("name", "?");
  return out;
}

Expected<TopLook> TopSource::of_daemon(ordered_json daemon) {
  const auto stats = ask_json(*client_, "stats");
  if (!stats) return stats.error();
  auto tenants = ask_json(*client_, "tenants");
  if (!tenants) return tenants;
  const Load now = load_of(*stats);
  const auto at = Clock::now();
  // Another process has counted from its own start.
  const auto pid = daemon.value("pid", std::int64_t{0});
  double seconds = std::chrono::duration<double>(at - since_).count();
  if (pid != std::exchange(pid_, pid)) {
    load_ = {};
    tenants_ = ordered_json::array();
    seconds = static_cast<double>(daemon.value("uptime_ms", std::uint64_t{1})) / 1000;
  }
  TopLook look = rates_of(load_, now, std::max(seconds, 1e-3));
  look["tenants"] = tenant_rates_of(tenants_, *tenants, std::max(seconds, 1e-3));
  look["daemon"] = std::move(daemon);
  load_ = now;
  tenants_ = std::move(*tenants);
  since_ = at;
  return look;
}

Expected<TopLook> TopSource::of_cluster(ordered_json daemon) {
  auto answer = all_nodes(*client_, '=');
  if (!answer) return answer;
  const auto at = Clock::now();
  TopLook look;
  look["seconds"] = std::round(1000 * std::chrono::duration<double>(at - since_).count()) / 1000;
  since_ = at;
  look["daemon"] = std::move(daemon);
  look["epoch"] = answer->value("epoch", std::uint64_t{0});
  ordered_json rows = cluster_.update(answer->value("nodes", ordered_json::array()));
  look["totals"] = totals_of(rows);
  look["nodes"] = std::move(rows);
  return look;
}

}  // namespace simm::ctl
