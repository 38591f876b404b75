#include "daemon/transport/rdma/device/sysfs_nics.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace simm::transport {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileBytesMax = 255;  // of what is read; the longest is a name

// The first line of a file; empty where it can not be read.
std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  char text[kFileBytesMax + 1] = {};
  stream.getline(text, sizeof text);
  return text;
}

template <typename Number>
std::optional<Number> number_at_start(std::string_view text, int base = 10) {
  if (base == 16 && text.substr(0, 2) == "0x") text.remove_prefix(2);
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// As a person counts: 2 comes before 10.
bool by_count(std::string_view one, std::string_view other) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < one.size() && j < other.size()) {
    if (!is_digit(one[i]) || !is_digit(other[j])) {
      if (one[i] != other[j]) return one[i] < other[j];
      ++i;
      ++j;
      continue;
    }
    const auto left = number_at_start<std::uint64_t>(one.substr(i)).value_or(~std::uint64_t{0});
    const auto right = number_at_start<std::uint64_t>(other.substr(j)).value_or(~std::uint64_t{0});
    if (left != right) return left < right;
    while (i < one.size() && is_digit(one[i])) ++i;
    while (j < other.size() && is_digit(other[j])) ++j;
  }
  return one.size() - i < other.size() - j;
}

using Order = bool (*)(std::string_view, std::string_view);

bool by_bytes(std::string_view one, std::string_view other) {
  return one < other;
}

// The names in a directory, the first so many of them.
std::vector<std::string> names_in(const fs::path& directory, std::size_t names_max,
                                  Order order = by_count) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end(), order);
  if (names.size() > names_max) names.resize(names_max);
  return names;
}

// "pci0000:16", "0000:16:00.0": what names a bus or a device on one.
bool is_pci_name(std::string_view name) {
  if (name.substr(0, 3) == "pci") name.remove_prefix(3);
  return std::count(name.begin(), name.end(), ':') >= 1 &&
         name.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

PciPath pci_path_of(const fs::path& device) {
  PciPath path;
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  if (error) return path;
  for (const fs::path& part : real) {
    const std::string name = part.string();
    if (is_pci_name(name)) path.push_back(name);
  }
  return path;
}

std::int32_t numa_node_of(const fs::path& device) {
  return number_at_start<std::int32_t>(line_of(device / "numa_node")).value_or(-1);
}

// "4: ACTIVE"
NicState parse_state(const std::string& text) {
  switch (number_at_start<int>(text).value_or(0)) {
    case 1:
      return NicState::down;
    case 2:
      return NicState::init;
    case 3:
      return NicState::armed;
    case 4:
      return NicState::active;
    default:
      return NicState::unknown;
  }
}

LinkLayer parse_link_layer(const std::string& text) {
  if (text == "InfiniBand") return LinkLayer::infiniband;
  if (text == "Ethernet") return LinkLayer::ethernet;
  return LinkLayer::unknown;
}

// "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)"
std::uint64_t parse_rate_mbit_s(const std::string& text) {
  constexpr std::uint64_t kRateMaxGbit = 1'000'000;
  const auto whole = number_at_start<std::uint64_t>(text);
  if (!whole || *whole > kRateMaxGbit || text.find(" Gb/sec") == std::string::npos) return 0;
  const std::size_t dot = text.find_first_not_of("0123456789");
  if (text[dot] != '.') return *whole * 1000;
  const auto tenths = number_at_start<std::uint64_t>(std::string_view(text).substr(dot + 1, 1));
  return *whole * 1000 + tenths.value_or(0) * 100;
}

// "0000:0000:0000:0000:0000:ffff:0a00:0001"; an entry without an address is all zeros.
void read_gids(const fs::path& port, Nic& nic) {
  constexpr std::size_t kGidsMax = 256;
  for (const std::string& index : names_in(port / "gids", kGidsMax)) {
    const std::string gid = line_of(port / "gids" / index);
    if (gid.find_first_not_of("0:") == std::string::npos) continue;
    if (line_of(port / "gid_attrs/types" / index) != "RoCE v2") continue;
    std::string& first = gid.rfind("fe80:", 0) == 0 ? nic.link_local_gid : nic.routed_gid;
    if (first.empty()) first = gid;
    if (!nic.routed_gid.empty()) return;
  }
}

Nic read_port(const fs::path& device, const std::string& name, std::uint32_t port) {
  const fs::path at = device / "ports" / std::to_string(port);
  Nic nic;
  nic.device = name;
  nic.port = port;
  nic.net_device = line_of(at / "gid_attrs/ndevs/0");
  nic.state = parse_state(line_of(at / "state"));
  nic.link_layer = parse_link_layer(line_of(at / "link_layer"));
  nic.speed_mbit_s = parse_rate_mbit_s(line_of(at / "rate"));
  nic.numa_node = numa_node_of(device / "device");
  nic.pci_path = pci_path_of(device / "device");
  if (nic.link_layer == LinkLayer::ethernet) read_gids(at, nic);
  return nic;
}

std::vector<Nic> read_ports(const fs::path& root) {
  std::vector<Nic> nics;
  const fs::path all = root / "class/infiniband";
  for (const std::string& name : names_in(all, kNicsMax)) {
    for (const std::string& port : names_in(all / name / "ports", kNicsMax)) {
      const auto number = number_at_start<std::uint32_t>(port);
      if (!number || nics.size() == kNicsMax) continue;
      nics.push_back(read_port(all / name, name, *number));
    }
  }
  return nics;
}

// Servers have a display adapter for their console, too: only makers of accelerators count.
bool is_gpu(const fs::path& device) {
  constexpr std::uint32_t kNvidia = 0x10de;
  constexpr std::uint32_t kAmd = 0x1002;
  constexpr std::uint32_t kDisplayController = 0x03;
  constexpr std::uint32_t kAccelerator = 0x12;
  const auto vendor = number_at_start<std::uint32_t>(line_of(device / "vendor"), 16).value_or(0);
  if (vendor != kNvidia && vendor != kAmd) return false;
  const auto code = number_at_start<std::uint32_t>(line_of(device / "class"), 16).value_or(0);
  return code >> 16 == kDisplayController || code >> 16 == kAccelerator;
}

std::vector<Gpu> read_gpus(const fs::path& root) {
  constexpr std::size_t kPciDevicesMax = 4096;
  std::vector<Gpu> gpus;
  const fs::path all = root / "bus/pci/devices";
  for (const std::string& address : names_in(all, kPciDevicesMax, by_bytes)) {
    if (gpus.size() == kGpusMax || !is_gpu(all / address)) continue;
    gpus.push_back({address, numa_node_of(all / address), pci_path_of(all / address)});
  }
  return gpus;
}

std::vector<std::int32_t> read_nodes(const fs::path& root) {
  constexpr std::size_t kNodeFilesMax = 4096;
  std::vector<std::int32_t> nodes;
  for (const std::string& name : names_in(root / "devices/system/node", kNodeFilesMax)) {
    if (name.substr(0, 4) != "node") continue;
    const auto node = number_at_start<std::int32_t>(std::string_view(name).substr(4));
    if (node) nodes.push_back(*node);
  }
  return nodes;
}

}  // namespace

NicTable read_nics(const std::string& root) {
  return {read_ports(root), read_gpus(root), read_nodes(root)};
}

}  // namespace simm::transport
