// How a queue pair's packets find the other end: the addresses of a path, and the partition that
// both ends belong to. Pure functions, so that subnets, routers and partitions that nobody here has
// can be tried.
//
// Sources. InfiniBand specification 1.4, volume 1: 4.1.1 (GIDs), 10.9 (partitions: the highest bit
// of a key tells a full member), 14.2.5.6 (a port may demand a global route header). The forwarding
// LID of a routed subnet stands in bytes 4 and 5 of a GID, as NCCL reads it.
// Thread: any.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "daemon/transport/rdma/device/gid_choice.h"
#include "daemon/transport/rdma/device/queue_pair.h"
#include "simm/expected.h"

namespace simm::transport {

// What this end's port and its configuration say.
struct PathSettings {
  std::uint8_t port = 1;
  int gid_index = 0;
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  bool needs_global_header = false;  // IBV_QPF_GRH_REQUIRED, as virtual functions have it
};

[[nodiscard]] ibv_ah_attr path_to(const QueuePairAddress& near, const QueuePairAddress& far,
                                  const PathSettings& settings) noexcept;

// 0: the subnet is not routed that way.
[[nodiscard]] std::uint16_t forwarding_lid(const Gid& gid) noexcept;

struct Partition {
  std::uint16_t index = 0;  // in the port's table
  std::uint16_t key = 0;
  // Members that are not full reach only those that are.
  [[nodiscard]] bool is_full() const noexcept { return (key & 0x8000U) != 0; }
};

// The entry of that key, whether the port is a full member or not; of none (0) that at `index`.
// Errors: invalid_argument (the port is in no such partition; the text says in which it is).
Expected<Partition> choose_partition(std::span<const std::uint16_t> table, std::uint16_t key,
                                     std::uint16_t index);

}  // namespace simm::transport
