// StagingMaker: gives a lane its staging memory, in steps that wait for nothing, because an
// asynchronous lane takes them under the engine's mutex.
// Owned by Core; the link outlives it. Thread: the one that borrowed the lane.
#pragma once

#include <cstdint>

#include "libclient/lane.h"
#include "libclient/link.h"
#include "simm/expected.h"

namespace simm::detail {

class StagingMaker {
public:
  explicit StagingMaker(Link& link) noexcept : link_(link) {}
  // At the attachment: how long the daemon may take to map it.
  void set_answer_ms(std::uint32_t answer_ms) noexcept { answer_ms_ = answer_ms; }

  // Asks the daemon to map staging memory of at least `bytes` in place of the lane's, or looks for
  // its answer. True: the lane has new staging memory.
  Expected<bool> make(Lane& lane, std::uint64_t bytes);

private:
  void send(Lane& lane, StagingRequest& request);

  Link& link_;
  std::uint32_t answer_ms_ = 0;
};

}  // namespace simm::detail
