#include "daemon/transport/rdma/device/nic_choice.h"

#include <algorithm>
#include <utility>

#include "daemon/base/nic_name.h"

namespace simm::transport {
namespace {

constexpr std::uint64_t kMbitPerGbit = 1000;

void add_problem(Nic& nic, const std::string& problem) {
  nic.problem += (nic.problem.empty() ? "" : "; ") + problem;
}

template <typename Names>
std::string listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::string nics_of(const NicTable& table) {
  std::vector<std::string> names;
  for (const Nic& nic : table.nics()) {
    names.push_back(nic.name());
  }
  return listed(names);
}

std::string gpus_of(const NicTable& table) {
  std::vector<std::string> names;
  for (const Gpu& gpu : table.gpus()) names.push_back(gpu.pci_address);
  return listed(names);
}

void apply(const base::NicConfig& config, const NicTable& found, Nic& nic) {
  nic.is_chosen = true;
  if (config.numa_node) {
    nic.numa_node = *config.numa_node;
    nic.configured.emplace_back("numa_node");
    const auto& nodes = found.nodes();
    if (std::find(nodes.begin(), nodes.end(), nic.numa_node) == nodes.end()) {
      add_problem(nic, "this host has no NUMA node " + std::to_string(nic.numa_node));
    }
  }
  if (config.speed_gbit_s) {
    nic.speed_mbit_s = *config.speed_gbit_s * kMbitPerGbit;
    nic.configured.emplace_back("speed_gbit_s");
  }
  const auto take = [&nic](const auto& said, auto& its, const char* name) {
    if (!said) return;
    its = said;
    nic.configured.emplace_back(name);
  };
  take(config.gid_index, nic.gid_index, "gid_index");
  take(config.partition_key, nic.partition_key, "partition_key");
  take(config.traffic_class, nic.traffic_class, "traffic_class");
  if (config.gpu.empty()) return;
  nic.configured.emplace_back("gpu");
  const auto is_it = [&config](const Gpu& gpu) { return gpu.pci_address == config.gpu; };
  if (std::any_of(found.gpus().begin(), found.gpus().end(), is_it)) {
    nic.gpu = config.gpu;
  } else {
    add_problem(nic, "this host has no GPU at " + config.gpu + "; there are: " + gpus_of(found));
  }
}

// People also call a NIC by what `ip link` calls it.
std::string remedy_for(const std::string& name, const NicTable& found) {
  for (const Nic& nic : found.nics()) {
    if (nic.net_device != name) continue;
    return "that is a network device of " + nic.device + ": write this name";
  }
  return "there are: " + nics_of(found);
}

Nic missing(const base::NicConfig& config, const base::NicName& name, const NicTable& found) {
  Nic nic;
  nic.device = name.device;
  nic.port = name.port;
  nic.state = NicState::missing;
  apply(config, found, nic);
  add_problem(nic, "this host has no such RDMA device; " + remedy_for(config.name, found));
  return nic;
}

// Ports of a network for something else: pages would wait for the slow one, or reach nobody. A port
// whose link is down says nothing true of its speed yet, so it stays.
std::string reason_to_leave_out(const Nic& nic, const Nic& fastest, bool is_one_routed) {
  if (nic.speed_mbit_s != 0 && nic.speed_mbit_s < fastest.speed_mbit_s / 2) {
    return "less than half as fast as " + fastest.name();
  }
  const bool is_local = nic.routed_gid.empty() && !nic.link_local_gid.empty();
  if (is_local && is_one_routed) return "its interface has no IP address, and those of others have";
  return {};
}

NicTable choose_by_default(const NicTable& found) {
  std::vector<Nic> nics = found.nics();
  const auto is_slower = [](const Nic& one, const Nic& other) {
    return std::pair(one.is_usable(), one.speed_mbit_s) <
           std::pair(other.is_usable(), other.speed_mbit_s);
  };
  const auto fastest = std::max_element(nics.begin(), nics.end(), is_slower);
  if (fastest == nics.end() || !fastest->is_usable()) return found;
  const Nic best = *fastest;
  const bool is_one_routed = std::any_of(nics.begin(), nics.end(), [](const Nic& nic) {
    return nic.is_usable() && !nic.routed_gid.empty();
  });
  for (Nic& nic : nics) {
    if (!nic.is_usable()) continue;
    nic.left_out = reason_to_leave_out(nic, best, is_one_routed);
    nic.is_chosen = nic.left_out.empty();
  }
  return {std::move(nics), found.gpus(), found.nodes()};
}

}  // namespace

NicTable choose_nics(const NicTable& found, const std::vector<base::NicConfig>& wanted) {
  if (wanted.empty()) return choose_by_default(found);
  std::vector<Nic> nics = found.nics();
  for (Nic& nic : nics) nic.is_chosen = false;
  for (const base::NicConfig& config : wanted) {
    const auto name = base::NicName::parse(config.name).value_or(base::NicName{config.name, 0});
    bool is_there = false;
    for (Nic& nic : nics) {
      if (nic.state == NicState::missing || !name.covers(nic.device, nic.port)) continue;
      is_there = true;
      apply(config, found, nic);
    }
    if (!is_there) nics.push_back(missing(config, name, found));
  }
  return {std::move(nics), found.gpus(), found.nodes()};
}

std::vector<std::string> nic_problems(const NicTable& table) {
  std::vector<std::string> problems;
  for (const Nic& nic : table.nics()) {
    if (nic.problem.empty()) continue;
    problems.push_back((nic.port == 0 ? nic.device : nic.name()) + ": " + nic.problem);
  }
  return problems;
}

}  // namespace simm::transport
