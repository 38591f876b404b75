// SysfsTree: a directory that looks like the part of /sys that SiMM reads: NUMA nodes, PCI devices
// under their bridges, RDMA devices and their ports. Made in a fresh temporary directory, removed
// at the end. Thread: the test's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace support {

struct SysfsPort {
  std::uint32_t number = 1;
  std::string state = "4: ACTIVE";
  std::string link_layer = "InfiniBand";
  std::string rate = "400 Gb/sec (4X NDR)";
  std::string net_device;
};

class SysfsTree {
public:
  explicit SysfsTree(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      std::filesystem::create_directories(root_ / "devices/system/node" /
                                          ("node" + std::to_string(i)));
    }
    write("devices/system/node/online", "0");
  }

  [[nodiscard]] std::string root() const { return root_.string(); }

  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }
  void remove(const std::filesystem::path& file) { std::filesystem::remove_all(root_ / file); }

  // `path`: "pci0000:16/0000:16:00.0/0000:17:00.0", the device last.
  void add_pci(const std::filesystem::path& path, int node, const std::string& vendor,
               const std::string& code) {
    const std::filesystem::path device = "devices" / path;
    write(device / "numa_node", std::to_string(node));
    write(device / "vendor", vendor);
    write(device / "class", code);
    std::filesystem::create_directories(root_ / "bus/pci/devices");
    std::filesystem::create_symlink(root_ / device, root_ / "bus/pci/devices" / path.filename());
  }
  void add_gpu(const std::filesystem::path& path, int node) {
    add_pci(path, node, "0x10de", "0x030200");
  }
  // An RDMA device; `path` empty: it is none of PCI, as soft RoCE is.
  void add_nic(const std::string& name, const std::filesystem::path& path, int node,
               const SysfsPort& port = {}) {
    if (!path.empty()) {
      add_pci(path, node, "0x15b3", "0x020700");
      const std::filesystem::path real = "devices" / path / "infiniband" / name;
      std::filesystem::create_directories(root_ / real);
      std::filesystem::create_directories(root_ / "class/infiniband");
      std::filesystem::create_symlink(root_ / real, root_ / "class/infiniband" / name);
      std::filesystem::create_symlink("../..", root_ / real / "device");
    }
    add_port(name, port);
  }
  void add_port(const std::string& name, const SysfsPort& port) {
    const std::filesystem::path at =
        std::filesystem::path("class/infiniband") / name / "ports" / std::to_string(port.number);
    write(at / "state", port.state);
    write(at / "link_layer", port.link_layer);
    write(at / "rate", port.rate);
    if (!port.net_device.empty()) write(at / "gid_attrs/ndevs/0", port.net_device);
  }

private:
  const simm::test_support::TemporaryDirectory directory_;
  const std::filesystem::path root_ = directory_.path();
};

}  // namespace support
