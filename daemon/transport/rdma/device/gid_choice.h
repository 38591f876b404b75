// Which address (GID) of a port its connections use. A RoCE port has one for each IP address and
// each version of RoCE; only version 2 is routed, and IPv4 is what data centres route.
// The order: version 2 before version 1; IPv4 before global IPv6 before link-local; a lower index.
// InfiniBand: index 1 where it names a routed subnet (verbs_path.h), else 0, which every port has.
// Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/transport/rdma/device/nic.h"
#include "simm/expected.h"

namespace simm::transport {

using Gid = std::array<std::uint8_t, 16>;

enum class GidKind : std::uint8_t { infiniband, roce_v1, roce_v2 };

struct GidEntry {
  Gid gid{};
  int index = 0;
  GidKind kind = GidKind::infiniband;
};

// `configured`: the index to use, whatever it is; negative: none. Errors: invalid_argument (there
// is no such index), unreachable (a RoCE port without any address).
Expected<GidEntry> choose_gid(std::span<const GidEntry> entries, LinkLayer link, int configured);

// As text of an IPv6 address: "::ffff:10.0.0.1".
std::string gid_text(const Gid& gid);

}  // namespace simm::transport
