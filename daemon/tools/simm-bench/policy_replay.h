// PolicyReplay: the hits of PolicyTraffic in a store of the real code, by the eviction policies
// that it has, and by two rules of the literature in simulators.
//
// A request looks up its pages from the first on. It reads those before the first miss and puts all
// others, each time the last page first and with its depth told. Hits count up to the first miss,
// as an engine can use them; of several ranks the worst one counts. Thread: any one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/tools/simm-bench/policy_traffic.h"
#include "simm/expected.h"

namespace simm::bench {

class PolicyReplay {
public:
  // A request with its pages numbered from 0 on.
  struct Request {
    base::TimeNs now_ns;
    std::uint32_t tenant;
    std::uint32_t units;
    std::uint32_t answer;
    bool counts;
    bool probe;
    std::uint32_t first;  // of its pages, among all that are asked for
    std::uint32_t count;
  };

  explicit PolicyReplay(const PolicyTraffic& traffic);

  // Parts of the pages that were looked up, in a cache of this part of all units of length.
  [[nodiscard]] Expected<double> hits(store::EvictionKind kind, double part) const;
  // J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023: a small queue of
  // a tenth, promotion at the second use.
  [[nodiscard]] double s3_fifo_hits(double part) const;
  // Belady's rule: what is used last leaves, or is not kept. All pages that are there are hits. The
  // best that can be when all pages have one length.
  [[nodiscard]] double belady_hits(double part) const;

  [[nodiscard]] std::uint32_t unique_pages() const noexcept { return unique_pages_; }

private:
  [[nodiscard]] std::uint64_t units_of(double part) const;
  [[nodiscard]] std::span<const std::uint32_t> pages_of(const Request& request) const {
    return {pages_.data() + request.first, request.count};
  }
  // Cache: has(page), use(place), put(place) and probe(page), after begin(request).
  template <class Cache>
  [[nodiscard]] double replay(Cache& cache, bool prefix_only) const;

  std::vector<Request> requests_;
  std::vector<std::uint32_t> pages_;  // of all requests, one after the other
  std::uint32_t answers_;
  std::uint32_t unique_pages_ = 0;
  std::uint64_t unique_units_ = 0;
};

}  // namespace simm::bench
