// AsyncEngines: the engines of a session, one for each of its asynchronous lanes. A Client's
// batches all go through one of them, so Clients that have different ones never meet. Owned by
// Core. Thread: any; configure() while nobody uses them.
#pragma once

#include <memory>
#include <vector>

#include "libclient/async_engine.h"
#include "libclient/lane_pool.h"

namespace simm::detail {

class AsyncEngines {
public:
  AsyncEngines(Link& link, LaneDriver& driver) noexcept : link_(link), driver_(driver) {}
  void configure(LanePool& pool);

  // One with as few owners as any.
  [[nodiscard]] AsyncEngine& choose() noexcept;
  void advance();

  void before_fork();
  void after_fork_parent() noexcept;
  void after_fork_child() noexcept;

private:
  Link& link_;
  LaneDriver& driver_;
  std::vector<std::unique_ptr<AsyncEngine>> engines_;
};

}  // namespace simm::detail
