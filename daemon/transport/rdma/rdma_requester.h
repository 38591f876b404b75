// RdmaRequester: the engine's end of the RDMA transport: links to the shards of other daemons, over
// any of this daemon's ports (rails).
//
// A request goes over rails whose NICs know its memory, of those over the ones on the memory's NUMA
// node, and of those over the ones with the least to do.
//
// A short request lives on one link. The pages of a long one are shared out
// over all rails that lead there, by their speed and by what is out on them already; each rail
// answers for its own pages, behind their data, and the engine hears one answer. When a rail fails,
// the pages that were out on it are asked for again over another one: only when there is none, or
// the second one fails too, the engine is told that the request was fenced.
//
// A page above stripe_bytes_min is cut: its request is striped, a part for each rail, which the
// server puts together (rdma_stripes.h). When one part of such a request fails, the others are
// cancelled, and when nothing of it is under way any more, all of it is asked for once more, in one
// part.
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
    return !has_posted_ && waiting_.empty() && links_.prepare_sleep();
  }

private:
  using PartState = RdmaBatch::PartState;
  // How well a rail can move some memory. Another class is no use while a better one has links.
  enum class Fitness : std::uint8_t {
    near,          // its NIC knows the memory, and is on the memory's node
    far,           // ... and is on another one
    near_unknown,  // its NIC does not know the memory yet
    far_unknown,   // nor does that, or it never will
  };
  // Of each rail of one class the link that has least to do, of those that lead to a route and have
  // credit.
  struct Choice {
    std::array<RdmaRequesterLink*, kRailsMax> links{};
    std::size_t count = 0;
    std::uint32_t credits = 0;  // that are free, of all links of the route
    bool is_reachable = false;
    Fitness fitness = Fitness::far_unknown;
  };

  // RequesterEvents: of the links, about parts.
  void on_reply(RequestToken part, std::span<const PageReply> pages) noexcept override;
  void on_fenced(RequestToken part, FenceCause cause) noexcept override;

  // rdma_requester_batches.cpp
  // `slice`: of the first page; the others lie beside it, as a rule.
  [[nodiscard]] Choice choose(Route route, const memory::Slice& slice) const noexcept;
  [[nodiscard]] bool is_reachable(Route route) const noexcept;
  [[nodiscard]] Fitness fitness_of(const RdmaRequesterLink& link,
                                   const memory::Slice& slice) const noexcept;
  // Whether it is to be striped; then `choice` is left with the links whose rails can.
  [[nodiscard]] bool choose_stripes(const RdmaBatch& batch, Choice& choice) const noexcept;
  [[nodiscard]] std::uint64_t weight_of(const RdmaRequesterLink& link) const noexcept;
  void share_out(RdmaBatch& batch, const Choice& choice) noexcept;
  [[nodiscard]] bool post_part(RdmaBatch& batch, std::uint8_t part,
                               RdmaRequesterLink& link) noexcept;
  int post_waiting() noexcept;
  void try_waiting(RdmaBatch& batch) noexcept;
  void wait(RdmaBatch& batch) noexcept;
  void end_part(RdmaBatch& batch, std::uint8_t part) noexcept;
  void cancel_parts(const RdmaBatch& batch) noexcept;
  // rdma_requester_stripes.cpp
  [[nodiscard]] static wire::StripeBody stripe_of(const RdmaBatch& batch,
                                                  std::uint8_t part) noexcept;
  static void add_slice(RdmaBatch& batch, std::uint8_t part, std::uint16_t page,
                        std::uint64_t offset, std::uint64_t bytes) noexcept;
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
  base::TimeNs turn_ns_ = 0;              // when the last turn began
  bool has_posted_ = false;               // since the last turn
  std::uint64_t stripe_numbers_ = 0;      // of striped requests so far
};

}  // namespace simm::transport
