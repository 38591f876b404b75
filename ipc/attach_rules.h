// The rules by which two versions of SiMM agree to talk, or say why they do not. Pure functions.
// The reason names both sides' values and the remedy: the person on the other side sees nothing
// else. Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "ipc/control_message.h"
#include "simm/expected.h"

namespace simm::ipc {

struct DaemonFacts {
  std::uint32_t layout_version = kLayoutVersion;  // the newest one that it speaks
  std::uint32_t feature_bits = kFeatureBits;      // features that this daemon offers
  std::string version;
  std::string manager_address;  // empty: none is configured
  std::uint32_t layout_version_min = kLayoutVersionMin;
};

// The layout of their session: the newest one that both speak. 0: there is none.
std::uint32_t common_layout(const Hello& hello, const DaemonFacts& daemon) noexcept;

// Daemon: may this client attach? incompatible: version or feature. invalid_argument: another
// cluster's manager; a daemon without one takes a manager on this machine for itself.
Outcome check_hello(const Hello& hello, const DaemonFacts& daemon);

// Client: is this the session that was asked for? incompatible: the daemon offers another layout,
// or a size that does not belong to its lane count.
Outcome check_welcome(const Welcome& welcome);

// Lanes to grant to a client that wants `wanted` (0: the default); `most` is at most kLanesMax.
std::uint32_t granted_lanes(std::uint32_t wanted, std::uint32_t default_lanes,
                            std::uint32_t most) noexcept;

}  // namespace simm::ipc
