// PageRouter: puts the pages of a batch into the order of their owners. So the pages of each owner
// lie side by side and can be posted as one span. Stable, in place, without allocation: a counting
// sort over the distinct owners, in the order in which they first appear.
// Thread: the data agent of the engine.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/engine/placement.h"
#include "daemon/transport/request.h"
#include "ipc/layout.h"

namespace simm::engine {

class PageRouter {
public:
  // At most ipc::kPagesPerSubmissionMax pages.
  void sort(std::span<transport::PageRequest> pages, const Placement& placement) noexcept;

  struct Run {
    std::uint32_t pages = 0;
    std::uint32_t key_bytes = 0;
  };
  // Those of `pages` from the first on that have the same owner and fit into one message: at least
  // one.
  static Run first_run(std::span<const transport::PageRequest> pages, const Placement& placement,
                       std::uint32_t pages_max, std::uint32_t key_bytes_max) noexcept;

private:
  static constexpr std::uint32_t kPages = ipc::kPagesPerSubmissionMax;
  static constexpr std::uint32_t kBuckets = 2 * kPages;  // at most half full

  struct Bucket {
    transport::Route route;
    std::uint16_t owner = 0;
    std::uint32_t round = 0;  // of sort(): an older one means empty, so nothing is ever cleared
  };
  std::uint16_t owner_of(transport::Route route) noexcept;

  std::uint32_t round_ = 0;
  std::uint16_t owner_count_ = 0;
  std::array<Bucket, kBuckets> buckets_{};
  std::array<std::uint16_t, kPages> target_{};    // first the page's owner, then its new place
  std::array<std::uint16_t, kPages + 1> next_{};  // next free place of each owner
};

}  // namespace simm::engine
