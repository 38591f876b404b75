// Incarnation: who a daemon is, for as long as its process lives: 128 random bits drawn at start. A
// restarted daemon has another one, so it is never mistaken for what it was before. A plain value;
// all zero names nobody. Thread: any.
#pragma once

#include "daemon/cluster/hello/random_id.h"

namespace simm::cluster {

using Incarnation = RandomId<struct NamedDaemon>;

}  // namespace simm::cluster
