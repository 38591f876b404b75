// Nic: one port of one RDMA device of this host, as sysfs describes it, and Gpu: a device with
// memory of its own that NICs may reach. Plain values: what they say was true when they were read.
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simm::transport {

// missing: the configuration names it, and the host has none of that name.
enum class NicState : std::uint8_t { unknown, down, init, armed, active, missing };
enum class LinkLayer : std::uint8_t { unknown, infiniband, ethernet };

// Where a device is plugged in: its ancestors from the root complex down to itself, as in
// {"pci0000:16", "0000:16:00.0", "0000:17:00.0"}. Empty: it is no PCI device (soft RoCE).
using PciPath = std::vector<std::string>;

struct Nic {
  std::string device;  // "mlx5_0"
  std::uint32_t port = 1;
  std::string net_device;  // of RoCE: "ens1f0np0"; empty where there is none
  NicState state = NicState::unknown;
  LinkLayer link_layer = LinkLayer::unknown;
  std::uint64_t speed_mbit_s = 0;  // 0: unknown
  std::int32_t numa_node = -1;     // -1: unknown
  PciPath pci_path;
  // Of RoCE version 2, each the first of its kind; empty: there is none.
  std::string routed_gid;
  std::string link_local_gid;

  // What the configuration says of it (nic_choice.h).
  bool is_chosen = true;
  // Where they differ from what is said of all ports.
  std::optional<std::int32_t> gid_index;
  std::optional<std::uint32_t> partition_key;
  std::optional<std::uint32_t> traffic_class;
  std::string gpu;                      // the one that it is near to; empty: by the PCI paths
  std::vector<std::string> configured;  // which of these values are the configuration's
  std::string problem;                  // what the configuration says and this host has not
  std::string left_out;                 // why it is not chosen although there is no list

  // Bytes can move through it now, and may.
  [[nodiscard]] bool is_usable() const noexcept { return is_chosen && state == NicState::active; }
  // The port of its rail. A device that is missing has no ports (0): its first one is waited for.
  [[nodiscard]] std::uint32_t rail_port() const noexcept { return port == 0 ? 1 : port; }
  // "mlx5_0/1", as its rail is called.
  [[nodiscard]] std::string name() const { return device + "/" + std::to_string(rail_port()); }
};

struct Gpu {
  std::string pci_address;  // "0000:1b:00.0"
  std::int32_t numa_node = -1;
  PciPath pci_path;
};

[[nodiscard]] const char* nic_state_name(NicState state) noexcept;
[[nodiscard]] const char* link_layer_name(LinkLayer layer) noexcept;

}  // namespace simm::transport
