// What the configuration says of etcd, checked. Thread: any.
#pragma once

#include "daemon/base/config.h"
#include "daemon/etcd/etcd_gateway.h"

namespace simm {

// The errors name the key, the value and the remedy.
Expected<etcd::EtcdConfig> etcd_settings(const base::Config& config);

}  // namespace simm
