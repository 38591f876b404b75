#include "daemon/tools/simmctl/cluster_rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

// In rows and in totals, each with the place of the same in rates_of().
struct RateColumn {
  const char* name;
  const char* part;
  const char* member;
};
constexpr std::array kSums = {
    RateColumn{"pages_per_s", "clients", "pages_per_s"},
    RateColumn{"got_bytes_per_s", "clients", "got_bytes_per_s"},
    RateColumn{"put_bytes_per_s", "clients", "put_bytes_per_s"},
    RateColumn{"hit_pages_per_s", "clients", "hit_pages_per_s"},
    RateColumn{"missed_pages_per_s", "clients", "missed_pages_per_s"},
    RateColumn{"timeouts_per_s", "clients", "timeouts_per_s"},
    RateColumn{"served_bytes_per_s", "pool", "get_bytes_per_s"},
    RateColumn{"stored_bytes_per_s", "pool", "put_bytes_per_s"},
    RateColumn{"evicted_per_s", "pool", "evicted_per_s"},
};
constexpr std::array kOthers = {
    RateColumn{"hit_percent", "clients", "hit_percent"},
    RateColumn{"batch_p50_us", "clients", "batch_p50_us"},
    RateColumn{"batch_p99_us", "clients", "batch_p99_us"},
};

double number_of(const ordered_json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? found->get<double>() : 0.0;
}

ordered_json row_rates(const Load& before, const Load& after, double seconds) {
  const ordered_json all = rates_of(before, after, seconds);
  ordered_json out;
  for (const RateColumn& column : kSums) out[column.name] = all[column.part][column.member];
  for (const RateColumn& column : kOthers) out[column.name] = all[column.part][column.member];
  const ordered_json& network = all["network"];
  out["in_bytes_per_s"] =
      number_of(network, "tcp_in_bytes_per_s") + number_of(network, "rdma_in_bytes_per_s");
  out["out_bytes_per_s"] =
      number_of(network, "tcp_out_bytes_per_s") + number_of(network, "rdma_out_bytes_per_s");
  return out;
}

}  // namespace

ordered_json ClusterRates::update(const ordered_json& nodes) {
  ordered_json rows = ordered_json::array();
  std::map<std::string, Known> known;
  for (const ordered_json& node : nodes) {
    ordered_json row = {{"name", node.value("name", "?")},
                        {"role", node.value("role", "?")},
                        {"state", node.value("state", "?")},
                        {"slots", node.value("slots", std::uint64_t{0})},
                        {"pool_bytes", node.value("weight_bytes", std::uint64_t{0})},
                        {"used_bytes", node.value("used_bytes", std::uint64_t{0})},
                        {"objects", node.value("objects", std::uint64_t{0})},
                        {"unreached_by", node.value("unreached_by", std::uint64_t{0})},
                        {"sessions", nullptr}};
    const std::string full = row["role"].get<std::string>() + "/" + row["name"].get<std::string>();
    Known& now = known[full] = std::move(known_[full]);
    const auto load = node.find("load");
    if (load != node.end() && load->is_object()) {
      const std::string incarnation = node.value("incarnation", "");
      const auto taken_ms = load->value("taken_ms", std::uint64_t{0});
      const Load after = load_of(load->value("counters", ordered_json::object()));
      row["sessions"] = after.sessions;
      if (now.incarnation != incarnation || taken_ms < now.taken_ms) now = {incarnation, 0, {}, {}};
      if (taken_ms > now.taken_ms) {
        const double seconds = static_cast<double>(taken_ms - now.taken_ms) / 1000;
        if (now.taken_ms != 0) now.rates = row_rates(now.load, after, seconds);
        now.taken_ms = taken_ms;
        now.load = after;
      }
    } else {
      now = {};
    }
    const ordered_json rates = now.rates.is_object() ? now.rates : row_rates(Load{}, Load{}, 1.0);
    for (const auto& [name, value] : rates.items()) {
      row[name] = now.rates.is_object() ? value : ordered_json(nullptr);
    }
    rows.push_back(std::move(row));
  }
  known_ = std::move(known);
  return rows;
}

ordered_json totals_of(const ordered_json& rows) {
  ordered_json out;
  out["daemons"] = rows.size();
  ordered_json& states = out["states"] = ordered_json::object();
  for (const ordered_json& row : rows) {
    const auto state = row.value("state", "?");
    states[state] = states.value(state, std::uint64_t{0}) + 1;
  }
  for (const char* const name : {"pool_bytes", "used_bytes", "objects", "sessions"}) {
    std::uint64_t sum = 0;
    for (const ordered_json& row : rows) {
      if (row[name].is_number()) sum += row[name].get<std::uint64_t>();
    }
    out[name] = sum;
  }
  for (const RateColumn& column : kSums) {
    double sum = 0;
    for (const ordered_json& row : rows) sum += number_of(row, column.name);
    out[column.name] = std::round(10 * sum) / 10;
  }
  const double hits = number_of(out, "hit_pages_per_s");
  const double asked = hits + number_of(out, "missed_pages_per_s");
  out["hit_percent"] = nullptr;
  if (asked > 0) out["hit_percent"] = std::round(1000 * hits / asked) / 10;
  out["worst_batch_p99_us"] = nullptr;
  for (const ordered_json& row : rows) {
    const double p99_us = number_of(row, "batch_p99_us");
    if (p99_us > number_of(out, "worst_batch_p99_us")) out["worst_batch_p99_us"] = p99_us;
  }
  return out;
}

}  // namespace simm::ctl
