// Which port of this daemon a port of another one is connected to. Rails of a cluster are often
// networks of their own, so the port whose network has most in common with the other one's is the
// one that reaches it: the longest common prefix of their GIDs (of RoCE, the IP addresses) as far
// as these name a network, which is 24 bits of an IPv4 address and 64 of an IPv6 one; among equal
// ones the port of the same place among them. So many ports of one network are used evenly, and
// hosts that name their ports in one order are connected rail by rail. Rails that share these bits
// and are networks of their own even so are told apart by trying: a daemon that gets a port which
// does not reach it asks again, and says another place then.
// Thread: any (pure function).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "daemon/transport/rdma/device/queue_pair.h"

namespace simm::transport {

// `far_place`: of the other end's port among its own, or a number that spreads them. Nothing: no
// port has the same kind of link.
[[nodiscard]] std::optional<std::size_t> choose_rail(std::span<const QueuePairAddress> own,
                                                     const QueuePairAddress& far,
                                                     std::size_t far_place) noexcept;

}  // namespace simm::transport
