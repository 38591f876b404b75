// ClusterRates: what each daemon of a cluster did lately, out of what it told the manager in its
// heartbeats: the rows of `simmctl top --cluster`. A rate is of the time between two heartbeats, by
// the daemon's own clock; until the next one comes it stays as it is.
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/tools/simmctl/load.h"

namespace simm::ctl {

class ClusterRates {
public:
  // `nodes`: the list of daemons in the manager's answer. A row for each of them, in its order:
  // {"name", "role", "state", "slots", "pool_bytes", "used_bytes", "objects", "unreached_by",
  // "sessions", ...rates}. The rates are null of a daemon that has told no second load yet, and
  // those and sessions of one of an older release, which tells none.
  nlohmann::ordered_json update(const nlohmann::ordered_json& nodes);

private:
  struct Known {
    std::string incarnation;
    std::uint64_t taken_ms = 0;
    Load load;
    nlohmann::ordered_json rates;  // null: none yet
  };
  std::map<std::string, Known> known_;  // by role and name
};

// Those rows together: how many daemons there are, in which states, and their sums.
nlohmann::ordered_json totals_of(const nlohmann::ordered_json& rows);

}  // namespace simm::ctl
