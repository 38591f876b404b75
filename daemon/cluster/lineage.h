// Lineage: which life of the cluster a map is of. A manager that begins without a state draws one,
// and all maps that follow have it. So epochs of two managers that know nothing of each other are
// not compared. Not set: unknown, in maps of the previous release. Plain values. Thread: any.
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/cluster/hello/random_id.h"

namespace simm::cluster {

using Lineage = RandomId<struct NamedLife>;

// A life that another one goes on from: the other manager has known its maps up to `epoch`.
struct Ancestor {
  Lineage lineage;
  base::Epoch epoch = 0;

  bool operator==(const Ancestor&) const = default;
};

// How many are remembered; the oldest are forgotten first.
inline constexpr std::size_t kAncestorsMax = 8;

struct MapLife {
  Lineage lineage;
  std::vector<Ancestor> ancestors;  // latest first; none while the lineage is not set

  bool operator==(const MapLife&) const = default;
};

}  // namespace simm::cluster
