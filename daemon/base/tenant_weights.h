// TenantWeights: how many times as many bytes a tenant moves as one with the weight 1, where both
// want to move some. Every queue that gives tenants turns looks here. Thread: any (immutable).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/base/ids.h"

namespace simm::base {

class TenantWeights {
public:
  struct Entry {
    TenantId tenant;
    std::uint32_t weight = 1;
  };

  TenantWeights() = default;  // all have the weight 1
  // A tenant that is not named has the weight 1. Each at most once.
  explicit TenantWeights(std::vector<Entry> entries) : entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& one, const Entry& other) {
      return one.tenant.value < other.tenant.value;
    });
  }

  [[nodiscard]] std::uint32_t of(TenantId tenant) const noexcept {
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), tenant.value,
                         [](const Entry& one, std::uint64_t id) { return one.tenant.value < id; });
    return found != entries_.end() && found->tenant == tenant ? found->weight : 1;
  }

private:
  std::vector<Entry> entries_;  // by id
};

}  // namespace simm::base
