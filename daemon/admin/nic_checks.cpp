#include "daemon/admin/nic_checks.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "daemon/base/json_text.h"
#include "daemon/transport/rdma/device/verbs_library.h"

namespace simm::control {
namespace {

namespace fs = std::filesystem;
using transport::LinkLayer;
using transport::Nic;
using transport::NicState;
using transport::NicTable;
using transport::RailProgress;

// A RoCE packet of 4,096 bytes with its headers.
constexpr std::uint64_t kNetMtuMin = 4200;

std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string gbit(std::uint64_t mbit_s) {
  return std::to_string(mbit_s / 1000) + " Gb/s";
}

// All looks at one port.
class PortChecks {
public:
  PortChecks(const NicTable& table, const Nic& nic, const fs::path& root,
             std::vector<NicCheck>& checks)
      : table_(table),
        nic_(nic),
        device_(root / "class/infiniband" / nic.device),
        net_(root / "class/net" / nic.net_device),
        checks_(checks) {}

  void look(const std::vector<RailProgress>& rails) {
    if (!nic_.left_out.empty()) return left_out();
    state();
    if (nic_.state == NicState::missing) return;
    speed();
    if (nic_.link_layer == LinkLayer::ethernet) {
      net_mtu();
      gid();
    }
    slot();
    node();
    rail(rails);
  }

private:
  void add(const std::string& check, bool is_fine, const std::string& found,
           const std::string& expected, const std::string& remedy) {
    checks_.push_back({nic_.name(), check, is_fine, found.empty() ? "nothing" : found, expected,
                       is_fine ? "" : remedy});
  }

  void left_out() {
    add("used", true, "left out: " + nic_.left_out,
        "a port for something else; else name all in `nics`", "");
    if (nic_.link_layer == LinkLayer::ethernet) gid();
  }
  void state() {
    std::string remedy =
        "set its link up: cable, switch port" +
        (nic_.net_device.empty() ? "" : ", ip link set " + nic_.net_device + " up");
    if (nic_.state == NicState::init || nic_.state == NicState::armed) {
      remedy = "it waits for a subnet manager: start one (opensm) in this network";
    }
    if (nic_.state == NicState::missing) remedy = nic_.problem;
    add("state", nic_.state == NicState::active, transport::nic_state_name(nic_.state), "active",
        remedy);
  }
  void speed() {
    std::uint64_t fastest = 0;
    for (const Nic& other : table_.nics()) {
      if (other.is_usable()) fastest = std::max(fastest, other.speed_mbit_s);
    }
    if (nic_.state != NicState::active || fastest == 0) return;
    add("speed", nic_.speed_mbit_s >= fastest, gbit(nic_.speed_mbit_s), gbit(fastest),
        "other ports are faster: a slower cable or switch port, or a network for something else, "
        "which the list `nics` of the configuration leaves out");
  }
  void net_mtu() {
    const std::string found = line_of(net_ / "mtu");
    std::uint64_t bytes = 0;
    std::istringstream(found) >> bytes;
    add("mtu", bytes >= kNetMtuMin, found, std::to_string(kNetMtuMin) + " or more",
        "ip link set " + (nic_.net_device.empty() ? "INTERFACE" : nic_.net_device) +
            " mtu 9000, and the same at the switch: packets of RDMA are 4096 bytes then, not 1024");
  }
  void gid() {
    add("gid", !nic_.routed_gid.empty(), nic_.routed_gid,
        "RoCE v2 with an address that can be routed", "give the network interface an IP address");
  }
  void slot() {
    const fs::path at = device_ / "device";
    const std::string most_speed = line_of(at / "max_link_speed");
    const std::string most_width = line_of(at / "max_link_width");
    if (most_speed.empty() || most_width.empty()) return;  // no PCI device
    const std::string speed = line_of(at / "current_link_speed");
    const std::string width = line_of(at / "current_link_width");
    add("pcie", speed == most_speed && width == most_width, speed + " x" + width,
        most_speed + " x" + most_width,
        "the slot, its riser or the BIOS gives the card less than it can do");
  }
  void node() {
    if (table_.nodes().size() < 2) return;
    add("numa_node", nic_.numa_node >= 0, std::to_string(nic_.numa_node), "a node of this host",
        "say it in `nics`: {\"name\": \"" + nic_.device + "\", \"numa_node\": N}");
  }
  void rail(const std::vector<RailProgress>& rails) {
    const auto found = std::find_if(rails.begin(), rails.end(), [this](const RailProgress& rail) {
      return rail.name == nic_.name();
    });
    if (found == rails.end()) return;
    add("rail", found->state == "open", found->state, "open", found->trouble);
    if (found->state != "open") return;
    const std::uint64_t left = found->waiting_bytes() + found->failed_bytes;
    add("registered", left == 0, std::to_string(found->registered_bytes) + " bytes",
        std::to_string(found->wanted_bytes) + " bytes",
        found->failed_bytes > 0
            ? "simmctl errors says why (rdma.register)"
            : "wait: absent pages of clients are registered when they are used");
  }

  const NicTable& table_;
  const Nic& nic_;
  const fs::path device_;
  const fs::path net_;
  std::vector<NicCheck>& checks_;
};

}  // namespace

NicCheckHost nic_check_host(const std::string& sysfs_root) {
  NicCheckHost host;
  host.sysfs_root = sysfs_root;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    host.lockable_bytes = limit.rlim_cur;
  }
  std::error_code unreadable;
  const fs::path devices = fs::path(sysfs_root) / "class/infiniband";
  if (fs::is_empty(devices, unreadable) || unreadable) return host;
  if (Outcome loaded = transport::load_verbs_library(); !loaded) {
    host.verbs_trouble = loaded.error().context;
  }
  return host;
}

std::vector<NicCheck> check_nics(const NicTable& table, const std::vector<RailProgress>& rails,
                                 const NicCheckHost& host) {
  std::vector<NicCheck> checks;
  const auto& nics = table.nics();
  const bool has_nics = std::any_of(nics.begin(), nics.end(),
                                    [](const Nic& nic) { return nic.state != NicState::missing; });
  checks.push_back({"host", "devices", has_nics, has_nics ? "RDMA devices" : "none", "RDMA devices",
                    has_nics ? "" : "load the driver, and ib_uverbs (rdma-core does): rdma link"});
  if (has_nics) {
    const bool is_loaded = host.verbs_trouble.empty();
    checks.push_back({"host", "libibverbs", is_loaded, is_loaded ? "loaded" : "not loaded",
                      "loaded", host.verbs_trouble});
  }
  const bool is_free = host.lockable_bytes == ~std::uint64_t{0};
  checks.push_back({"host", "locked_memory", is_free,
                    is_free ? "unlimited" : std::to_string(host.lockable_bytes) + " bytes",
                    "unlimited",
                    is_free ? "" : "LimitMEMLOCK=infinity, by the drop-in rdma.conf; ulimit -l"});
  for (const Nic& nic : nics) {
    const bool is_looked_at = nic.is_chosen || !nic.left_out.empty();
    if (is_looked_at) PortChecks(table, nic, host.sysfs_root, checks).look(rails);
  }
  return checks;
}

std::string nic_checks_text(const std::vector<NicCheck>& checks) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const NicCheck& check : checks) {
    all.push_back({{"nic", check.nic},
                   {"check", check.check},
                   {"fine", check.is_fine},
                   {"found", check.found},
                   {"expected", check.expected},
                   {"remedy", check.remedy}});
  }
  return base::json_text(all);
}

}  // namespace simm::control
