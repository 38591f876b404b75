// ClusterSettings: what a daemon is in its cluster and what it knows of it, from its configuration.
// Made once at start, before any connection; immutable, outlives them all. Errors are for people:
// they name the key and what to write. Thread: start-up, then control.
#pragma once

#include <cstdint>

#include "daemon/base/config.h"
#include "daemon/base/random.h"
#include "daemon/cluster/hello/hello.h"
#include "daemon/cluster/socket_address.h"
#include "simm/expected.h"

namespace simm::control {

struct ClusterSettings {
  cluster::ClusterSecret secret;
  cluster::HelloSelf self;
  std::uint64_t hash_seed = 0;

  // `shards`: that this daemon serves; 0: other daemons store nothing here. Draws the incarnation.
  static Expected<ClusterSettings> make(const base::Config& config, cluster::ClusterRole role,
                                        std::uint16_t shards, base::Random& random);
};

// What other daemons are to dial: cluster.advertise, its port or all of it taken from where this
// daemon listens if it is not given. "{name}" is the name of this daemon there. The host is without
// brackets.
Expected<cluster::HostAndPort> advertised_address(const base::Config& config,
                                                  const cluster::SocketAddress& listening);

// "host:port" of a host without brackets.
std::string dial_text(const std::string& host, std::uint16_t port);

}  // namespace simm::control
