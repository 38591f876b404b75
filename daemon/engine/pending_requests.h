// PendingRequests: the requests of an engine that could not be posted yet, a line for each tenant.
// Tenants have their turns one after the other. So one that waits for a credit with a thousand
// requests does not stand in front of one that waits with its first.
// Owned by an Engine. Thread: its data agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/ids.h"
#include "daemon/base/limits.h"
#include "daemon/engine/request_pool.h"

namespace simm::engine {

class PendingRequests {
public:
  // As many tenants as the daemon serves; should there be more, they share a line.
  static constexpr std::uint32_t kLines = base::kTenantsServedMax;

  PendingRequests() : lines_(std::make_unique<Line[]>(kLines)) {}

  // At the end of its tenant's line. It may be unlinked from there at any time.
  void push(base::TenantId tenant, SubRequest& request) noexcept {
    line_of(tenant).requests.push_back(request);
  }
  // False: perhaps not.
  [[nodiscard]] bool empty() const noexcept { return used_ == 0; }

  // Takes requests off, tenant by tenant, the oldest of each first, and hands them to `post`: each
  // that waits now at most once, and no more than `most`. What `post` pushes waits for another
  // call. No line but that of the request may be pushed to meanwhile.
  template <typename Post>
  void take_turns(std::uint32_t most, Post&& post) noexcept {
    for (std::uint32_t i = 0; i < used_; ++i) lines_[i].last = lines_[i].requests.back();
    std::uint32_t taken = 0;
    for (std::uint32_t passed = 0; passed < used_ && taken < most;) {
      Line& line = lines_[next_ % used_];
      next_ = (next_ + 1) % used_;
      if (line.last == nullptr) {
        ++passed;
        continue;
      }
      passed = 0;
      SubRequest& request = *line.requests.pop_front();
      if (line.last == &request) line.last = nullptr;
      ++taken;
      post(request);
    }
    while (used_ > 0 && lines_[used_ - 1].requests.empty()) --used_;
  }

private:
  struct Line {
    base::TenantId tenant;
    base::IntrusiveList<SubRequest, PendingTag> requests;
    SubRequest* last = nullptr;  // of this round; null: nothing of the line is left in it
  };

  // Of a tenant that waits already, or an empty one. A search: only what has to wait comes here.
  Line& line_of(base::TenantId tenant) noexcept {
    Line* free = nullptr;
    for (std::uint32_t i = 0; i < used_; ++i) {
      if (lines_[i].tenant == tenant) return lines_[i];
      if (free == nullptr && lines_[i].requests.empty()) free = &lines_[i];
    }
    if (free == nullptr) free = &lines_[used_ < kLines ? used_++ : kLines - 1];
    free->tenant = tenant;
    free->last = nullptr;
    return *free;
  }

  std::unique_ptr<Line[]> lines_;
  std::uint32_t used_ = 0;  // all behind them are empty
  std::uint32_t next_ = 0;  // whose turn it is
};

}  // namespace simm::engine
