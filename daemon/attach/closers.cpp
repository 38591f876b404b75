#include "daemon/attach/closers.h"

#include <algorithm>
#include <utility>

#include "daemon/base/limits.h"
#include "simm/check.h"

namespace simm::control {

Closers::Closers(const TenantRules& rules, const char* thread_name) {
  for (const Tenant& tenant : rules.tenants()) {
    closers_.push_back(std::unique_ptr<Closer>(
        new Closer{tenant.id, JobThread(thread_name, base::kRegistrarJobsMax)}));
  }
}

void Closers::start() {
  for (const auto& closer : closers_) closer->thread.start();
}

void Closers::stop() {
  for (const auto& closer : closers_) closer->thread.stop();
}

void Closers::submit(const Tenant& tenant, JobThread::Job job) {
  const auto found = std::find_if(closers_.begin(), closers_.end(),
                                  [&](const auto& closer) { return closer->tenant == tenant.id; });
  SIMM_CHECK(found != closers_.end());
  (*found)->thread.submit_release(std::move(job));
}

}  // namespace simm::control
