// The keys of a data link, from the hello that began it. Thread: control.
#pragma once

#include "daemon/cluster/hello/hello.h"
#include "daemon/transport/frame_seal.h"

namespace simm::control {

// None, unless both ends know tags and have a cluster secret: without one, everybody knows the
// keys.
[[nodiscard]] transport::LinkKeys link_keys(const cluster::HelloResult& hello,
                                            const cluster::ClusterSecret& secret) noexcept;

}  // namespace simm::control
