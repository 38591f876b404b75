#include "daemon/transport/rdma/device/gid_choice.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace simm::transport {
namespace {

bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

// fe80::/10
bool is_link_local(const Gid& gid) {
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

// The lower the better.
int rank(const GidEntry& entry) {
  const int version = entry.kind == GidKind::roce_v2 ? 0 : 3;
  if (is_ipv4(entry.gid)) return version;
  return version + (is_link_local(entry.gid) ? 2 : 1);
}

// The one that routers between subnets know, if there is one: it stands behind the port's own.
int index_of_infiniband(std::span<const GidEntry> entries) {
  const auto is_routed = [](const GidEntry& entry) {
    return entry.index == 1 && (entry.gid[4] != 0 || entry.gid[5] != 0);
  };
  return std::any_of(entries.begin(), entries.end(), is_routed) ? 1 : 0;
}

}  // namespace

Expected<GidEntry> choose_gid(std::span<const GidEntry> entries, LinkLayer link, int configured) {
  if (configured >= 0 || link == LinkLayer::infiniband) {
    const int index = configured >= 0 ? configured : index_of_infiniband(entries);
    const auto found = std::find_if(entries.begin(), entries.end(), [index](const GidEntry& entry) {
      return entry.index == index;
    });
    if (found != entries.end()) return *found;
    return Error{Status::invalid_argument,
                 "the port has no GID with index " + std::to_string(index) +
                     "; 'rdma link' and show_gids tell those it has, -1 lets SiMM choose"};
  }
  const auto best = std::min_element(
      entries.begin(), entries.end(), [](const GidEntry& one, const GidEntry& other) {
        const int left = rank(one);
        const int right = rank(other);
        return left != right ? left < right : one.index < other.index;
      });
  if (best != entries.end()) return *best;
  return Error{Status::unreachable,
               "the port has no GID: give its network interface an IP address and set it up"};
}

std::string gid_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  return ::inet_ntop(AF_INET6, gid.data(), text, sizeof text) != nullptr ? text : "";
}

}  // namespace simm::transport
