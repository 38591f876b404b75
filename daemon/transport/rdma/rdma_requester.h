// RdmaRequester: the engine's end of the RDMA transport: links to the shards of other daemons, over
// any of this daemon's ports (rails).
//
// A short request lives on one link, a long one in parts on several (rail_chooser.h). Each rail
// answers for its own pages, behind their data, and the engine hears one answer. When a rail fails,
// the pages that were out on it are asked for again over another one: only when there is none, or
// the second one fails too, the engine is told that the request was fenced.
//
// When one part of a striped request fails, the others are cancelled. When nothing of the request
// is under way any more, all of it is asked for once more, in one part.
//
// A peer that is silent for peer_detection_ns while requests are out is dead on that link: the
// link ends, and the others say for themselves.
// Thread: the engine's data agent; made on the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/free_slots.h"
#include "daemon/base/lazy_array.h"
#include "daemon/transport/index_queue.h"
#include "daemon/transport/rdma/rail_chooser.h"
#include "daemon/transport/rdma/rdma_batch.h"
#include "daemon/transport/rdma/rdma_link_set.h"
#include "daemon/transport/rdma/rdma_requester_link.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class RdmaRequester final : public Requester, private RequesterEvents {
public:
  // All references outlive the requester. `ports` by rail, of this end alone.
  RdmaRequester(const RdmaRequesterConfig& config, const base::Clock& clock,
                std::vector<RdmaPort*> ports, const MemoryKeys& keys, Mover& mover,
                OwnRoster& links, RdmaLinkMailbox& mailbox, const RdmaCounters& counters = {});
  // Fences every link; nobody is told. On the agent's thread, or when that has ended.
  ~RdmaRequester() override = default;
  RdmaRequester(const RdmaRequester&) = delete;
  RdmaRequester& operator=(const RdmaRequester&) = delete;

  void connect(RequesterEvents& events, RegionFaults* faults) noexcept override;

  // unsupported: memory of the request is not registered with the device of any link that leads
  // there (yet), and nothing happened; another transport may carry it.
  Status post(Route route, RequestToken token, const Request& request) noexcept override;
  void cancel(Route route, RequestToken token) noexcept override;
  // Every link that this request is on breaks.
  void reset(Route route, RequestToken culprit) noexcept override;
  int do_work() noexcept override;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override {
    return !has_posted_ && links_.prepare_sleep();
  }

private:
  using PartState = RdmaBatch::PartState;
  // RequesterEvents: of the links, about parts.
  void on_reply(RequestToken part, std::span<const PageReply> pages) noexcept override;
  void on_fenced(RequestToken part, FenceCause cause) noexcept override;

  [[nodiscard]] bool post_part(RdmaBatch& batch, std::uint8_t part,
                               RdmaRequesterLink& link) noexcept;
  int post_waiting() noexcept;
  [[nodiscard]] int try_waiting(RdmaBatch& batch) noexcept;
  void list_waiting(RdmaBatch& batch) noexcept;
  // Until the next turn at least.
  void wait(RdmaBatch& batch) noexcept {
    list_waiting(batch);
    has_posted_ = true;
  }
  void end_part(RdmaBatch& batch, std::uint8_t part) noexcept;
  void cancel_parts(const RdmaBatch& batch) noexcept;
  void end_stripe(RdmaBatch& batch, std::uint8_t part, std::span<const PageReply> pages) noexcept;
  void lose_stripe(RdmaBatch& batch, std::uint8_t part) noexcept;
  [[nodiscard]] bool ask_whole(RdmaBatch& batch) noexcept;
  void release(RdmaBatch& batch) noexcept;
  [[nodiscard]] RdmaBatch* find(RequestToken token) noexcept;
  [[nodiscard]] RequestToken part_token(const RdmaBatch& batch, std::uint8_t part) const noexcept;

  const RdmaRequesterConfig config_;
  RdmaRequesterShared shared_;
  RequesterEvents* events_ = nullptr;
  base::LazyArray<RdmaBatch> batches_;
  base::FreeSlots free_;                  // of them
  std::size_t batches_touched_ = 0;       // no batch from here on was ever used
  IndexQueue waiting_;                    // batches with parts that wait
  RdmaLinkSet<RdmaRequesterLink> links_;  // after what it uses
  RailChooser chooser_;
  base::TimeNs turn_ns_ = 0;  // when the last turn began
  bool has_posted_ = false;   // or waits anew, since the last turn
};

}  // namespace simm::transport
