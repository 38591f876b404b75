// NicTable: the NICs and GPUs of a host, and which NICs are near to some memory. Near decides what
// moves bytes: a NIC on the other socket reaches the same memory over the link between sockets, at
// a fraction of its speed and at the cost of everybody else.
//
// The rules. Memory of a NUMA node: the usable NICs of that node; where it has none, or the node is
// unknown, all usable ones. Memory of a GPU: the usable NICs that share the longest part of its PCI
// path (the same switch before the same root complex); where none shares any, as for the memory of
// the GPU's node. A NIC that is configured for one GPU is near to that one, alone with others that
// are, and shares its path with no other GPU.
// Thread: any (immutable).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/transport/rdma/device/nic.h"

namespace simm::transport {

// Ports that are looked at, and GPUs; a host with more has the first ones, by name.
inline constexpr std::size_t kNicsMax = 64;
inline constexpr std::size_t kGpusMax = 64;

class NicTable {
public:
  // `nodes`: the NUMA nodes of the host.
  NicTable(std::vector<Nic> nics, std::vector<Gpu> gpus, std::vector<std::int32_t> nodes);

  [[nodiscard]] const std::vector<Nic>& nics() const noexcept { return nics_; }
  [[nodiscard]] const std::vector<Gpu>& gpus() const noexcept { return gpus_; }
  [[nodiscard]] const std::vector<std::int32_t>& nodes() const noexcept { return nodes_; }

  // Indices into nics(), ascending. Empty: none is usable.
  [[nodiscard]] std::vector<std::size_t> near_node(std::int32_t node) const;
  [[nodiscard]] std::vector<std::size_t> near_gpu(std::size_t gpu) const;

private:
  std::vector<Nic> nics_;
  std::vector<Gpu> gpus_;
  std::vector<std::int32_t> nodes_;
};

}  // namespace simm::transport
