// Which port of this daemon a port of another one is connected to. Rails of a cluster are often
// networks of their own, so the port whose address has most in common with the other one's is the
// one that reaches it: the longest common prefix of their GIDs (of RoCE, the IP addresses), and
// among equal ones the port of the same place in the list, so that many ports of one network are
// used evenly.
// Thread: any (pure function).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "daemon/transport/rdma/queue_pair.h"

namespace simm::transport {

// `far_place` is any number that spreads the other end's ports. Nothing: no port has the same kind
// of link.
[[nodiscard]] std::optional<std::size_t> choose_rail(std::span<const QueuePairAddress> own,
                                                     const QueuePairAddress& far,
                                                     std::size_t far_place) noexcept;

}  // namespace simm::transport
