// ClusterRole: what a daemon is in the cluster. The numbers are part of the wire; only append.
// Thread: any.
#pragma once

#include <cstdint>
#include <string_view>

namespace simm::cluster {

enum class ClusterRole : std::uint8_t {
  manager = 1,
  storage = 2,
  node = 3,  // a member as well when it has a pool
};

inline constexpr bool is_known_role(std::uint8_t value) noexcept {
  return value >= 1 && value <= 3;
}

inline constexpr std::string_view role_name(ClusterRole role) noexcept {
  switch (role) {
    case ClusterRole::manager:
      return "manager";
    case ClusterRole::storage:
      return "storage";
    case ClusterRole::node:
      return "node";
  }
  return "unknown";
}

}  // namespace simm::cluster
