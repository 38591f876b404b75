#include "daemon/transport/rdma/device/nic_table.h"

#include <algorithm>
#include <utility>

namespace simm::transport {
namespace {

// How many ancestors two devices share.
std::size_t shared_path(const PciPath& one, const PciPath& other) {
  const std::size_t length = std::min(one.size(), other.size());
  std::size_t shared = 0;
  while (shared < length && one[shared] == other[shared]) ++shared;
  return shared;
}

}  // namespace

NicTable::NicTable(std::vector<Nic> nics, std::vector<Gpu> gpus, std::vector<std::int32_t> nodes)
    : nics_(std::move(nics)), gpus_(std::move(gpus)), nodes_(std::move(nodes)) {}

std::vector<std::size_t> NicTable::near_node(std::int32_t node) const {
  std::vector<std::size_t> usable;
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (!nics_[i].is_usable()) continue;
    usable.push_back(i);
    if (node >= 0 && nics_[i].numa_node == node) near.push_back(i);
  }
  return near.empty() ? usable : near;
}

std::vector<std::size_t> NicTable::near_gpu(std::size_t gpu) const {
  const Gpu& wanted = gpus_.at(gpu);
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (nics_[i].is_usable() && nics_[i].gpu == wanted.pci_address) near.push_back(i);
  }
  if (!near.empty()) return near;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (!nics_[i].is_usable() || !nics_[i].gpu.empty()) continue;
    const std::size_t shared = shared_path(wanted.pci_path, nics_[i].pci_path);
    if (shared < longest || shared == 0) continue;
    if (shared > longest) near.clear();
    longest = shared;
    near.push_back(i);
  }
  return near.empty() ? near_node(wanted.numa_node) : near;
}

}  // namespace simm::transport
