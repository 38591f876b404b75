// Closers: close what clients sent and what may make its closer wait for as long as its client
// likes: descriptors that are no memory, and sockets in which messages with descriptors lie unread.
// One thread for each tenant, so a tenant waits only for its own clients, and there are at most
// kTenantsServedMax of them. A session has at most kFdsPerMessageMax descriptors, its socket and
// its bell here, and counts as open until they are closed.
// A second set, the sealers, seals session memory: a client that writes to the file out of memory
// that hangs keeps the file's lock. A session has one such job, and counts as open meanwhile.
// Owned by the composition root. Thread: control; jobs run on the tenant's thread.
#pragma once

#include <memory>
#include <vector>

#include "daemon/attach/tenant_rules.h"
#include "daemon/control/job_thread.h"

namespace simm::control {

class Closers {
public:
  // `thread_name`: static, at most 15 characters.
  Closers(const TenantRules& rules, const char* thread_name);

  void start();
  // Runs what is queued, then ends. Idempotent.
  void stop();

  // `tenant` is one of the rules'.
  void submit(const Tenant& tenant, JobThread::Job job);

private:
  struct Closer {
    base::TenantId tenant;
    JobThread thread;
  };
  std::vector<std::unique_ptr<Closer>> closers_;
};

}  // namespace simm::control
