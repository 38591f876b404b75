// What the log and the events say of a pool when its daemon starts. Thread: the start's.
#pragma once

#include "daemon/base/event_log.h"
#include "daemon/base/log.h"
#include "daemon/store/pool/pool_memory.h"

namespace simm {

void log_pool(base::Log& log, base::EventLog& events, const store::PoolMemory& pool);

}  // namespace simm
