// LocalRequester: the engine's end of the local transport: one channel to each server of this
// process, chosen by Route::shard.
//
// Every request is a path of its own: copies are made by the serving agent, which is the fence
// itself, so a reset breaks only the request it names and nothing is fenced for another's sake.
// Thread: the engine's data agent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/free_slots.h"
#include "daemon/transport/local/local_channel.h"
#include "daemon/transport/region_faults.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class LocalRequester final : public Requester {
public:
  // channels[shard] leads to that shard's server, and its answers are marked in `inbox` under that
  // number. They outlive the requester. `peer`: the only one that it leads to.
  LocalRequester(const std::vector<LocalChannel*>& channels, LocalInbox& inbox,
                 base::PeerId peer = base::kSelf);

  void connect(RequesterEvents& events, RegionFaults* faults) noexcept override;
  Status post(Route route, RequestToken token, const Request& request) noexcept override;
  void cancel(Route route, RequestToken token) noexcept override;
  // A reset ends its own request only.
  void abandon(Route route, RequestToken token) noexcept override { reset(route, token); }
  void reset(Route route, RequestToken culprit) noexcept override;
  [[nodiscard]] std::uint64_t moved(Route route) const noexcept override;
  int do_work() noexcept override;

private:
  // What this side knows of a slot; the slot itself belongs to the responder while it is posted.
  struct Posted {
    RequestToken token = 0;
    std::uint32_t use = 0;
    bool in_use = false;
    bool cancelling = false;
    bool resetting = false;
  };
  struct Lane {
    LocalChannel* channel = nullptr;
    std::unique_ptr<Posted[]> posted;
    base::FreeSlots free;  // one for each credit
  };

  Lane* lane_of(Route route) noexcept;
  static Posted* find(Lane& lane, RequestToken token) noexcept;
  void take_event(Lane& lane, LocalEvent event) noexcept;

  [[nodiscard]] int take_events(Lane& lane, bool& has_more) noexcept;

  const base::PeerId peer_;
  LocalInbox& inbox_;
  std::uint64_t marked_ = 0;  // lanes with events, a bit each
  std::vector<Lane> lanes_;
  RequesterEvents* events_ = nullptr;
  RegionFaults* faults_ = nullptr;
};

}  // namespace simm::transport
