// How people name what is plugged in: NicName, an RDMA device or one port of it, and addresses of
// PCI devices. Plain values. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace simm::base {

struct NicName {
  std::string device;      // "mlx5_0"
  std::uint32_t port = 0;  // 0: all its ports

  // "mlx5_0", "mlx5_0/1". Nothing: it is neither.
  static std::optional<NicName> parse(std::string_view text);

  [[nodiscard]] bool covers(std::string_view of_device, std::uint32_t of_port) const noexcept {
    return device == of_device && (port == 0 || port == of_port);
  }
  // Some port is meant by both.
  [[nodiscard]] bool overlaps(const NicName& other) const noexcept {
    return device == other.device && (port == 0 || other.port == 0 || port == other.port);
  }
};

// As the kernel writes it, "0000:1b:00.0". Taken as other programs write it, too: in capitals,
// without the domain or with one of eight digits (nvidia-smi). Nothing: it is none.
std::optional<std::string> parse_pci_address(std::string_view text);

}  // namespace simm::base
