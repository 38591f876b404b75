// What `simmd manager --check-etcd` finds: each endpoint of manager.etcd is asked as a manager
// would ask it, with its certificate and its password. Nothing is written. Thread: any, which may
// wait.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/config.h"
#include "simm/expected.h"

namespace simm {

// A line for each endpoint, or why a manager could not use it. A single error when the
// configuration is wrong.
std::vector<Expected<std::string>> check_etcd(const base::Config& config);

}  // namespace simm
