// The choices of the configuration that several rooms go by, each with its names (choice.h).
// Thread: any; plain values.
#pragma once

#include <cstdint>
#include <string_view>

namespace simm::base {

// A role of simmd, as its subcommand is called.
enum class Role : std::uint8_t {
  all,      // alone, whatever is configured of a cluster
  node,     // serves clients; in a cluster when cluster.manager is set
  storage,  // serves other daemons of its cluster, and no clients
  manager,
  adopt,
};
inline constexpr std::string_view kRoleNames = "all|node|storage|manager|adopt";

// What leaves a full pool first.
enum class EvictionKind : std::uint8_t {
  reuse,  // what is least likely to be used again soon, learned from the traffic
  lru,
  fifo,
};
inline constexpr std::string_view kEvictionNames = "reuse|lru|fifo";

// Which gets compare the payload with its checksum. Over a transport that takes it anyway (TCP) all
// gets of whole objects do.
enum class VerifyMode : std::uint8_t { never, sampled, always };
inline constexpr std::string_view kVerifyNames = "never|sampled|always";

enum class HugepageMode : std::uint8_t { off, try_, require };
inline constexpr std::string_view kHugepageNames = "off|try|require";

// What becomes of objects that an earlier daemon left in the pool's memory.
enum class RestartMode : std::uint8_t { keep, fresh, require };
inline constexpr std::string_view kRestartNames = "keep|fresh|require";

// What may be told of single keys to those who administer the daemon.
enum class KeyEventsMode : std::uint8_t { off, hashes };
inline constexpr std::string_view kKeyEventsNames = "off|hashes";

// Whether bytes move by RDMA: where both ends can; never; or not at all without it.
enum class RdmaMode : std::uint8_t { automatic, off, require };
inline constexpr std::string_view kRdmaNames = "auto|off|require";

}  // namespace simm::base
