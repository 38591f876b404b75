// RdmaRequesterLink: the asking side of one link: requests out on it, its life signs, and the fence
// at its end. No request goes over it before the other end was heard: a path may swallow what is
// sent, and a port that is up says nothing about that. It moves no payload but what travels inside
// messages: the server's device reads the pages of a put where they lie, and writes those of a get.
// Owned by a RdmaRequester. Thread: the engine's data agent. No allocation after construction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "daemon/base/free_slots.h"
#include "daemon/base/hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/transport/index_queue.h"
#include "daemon/transport/mover.h"
#include "daemon/transport/own_roster.h"
#include "daemon/transport/rdma/rdma_channel.h"
#include "daemon/transport/rdma/rdma_posted.h"
#include "daemon/transport/rdma/registration/memory_keys.h"
#include "daemon/transport/region_faults.h"
#include "daemon/transport/tenant_turns.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

// Bytes of all slices together.
[[nodiscard]] std::uint64_t payload_bytes_of(std::span<const PageRequest> pages) noexcept;

// What all links of one requester share.
struct RdmaRequesterShared {
  const RdmaRequesterConfig& config;
  const base::Clock& clock;
  const MemoryKeys& keys;
  Mover& mover;
  OwnRoster& links;
  RdmaCounters counters;
  RequesterEvents* events = nullptr;
  RegionFaults* faults = nullptr;

  // Of the request that is being encoded.
  std::array<std::uint8_t, ipc::kPagesPerSubmissionMax> is_inline{};
  std::array<wire::RemoteTarget, wire::kTargetsMax> targets{};
  std::uint32_t target_count = 0;
  base::PayloadDigest scratch_digest{};  // what a Mover wants and nobody reads
};

class RdmaRequesterLink final : private MessageHandler {
public:
  explicit RdmaRequesterLink(RdmaRequesterShared& shared);

  // False: its route has as many links as it may; `link` stays the caller's.
  [[nodiscard]] bool open(std::unique_ptr<RdmaLink>& link, base::TimeNs now_ns) noexcept;
  [[nodiscard]] RdmaChannel& path() noexcept { return channel_; }
  [[nodiscard]] const RdmaChannel& path() const noexcept { return channel_; }

  // Requests for that route can go over it: it is open, and its other end was heard.
  [[nodiscard]] bool leads_to(Route route) const noexcept;

  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] std::uint32_t credits() const noexcept { return free_.count(); }
  // Payload of the requests that are out.
  [[nodiscard]] std::uint64_t bytes_out() const noexcept { return bytes_out_; }

  // Only with credit, on an open channel. False: memory of it is not registered (yet); nothing
  // happened. `stripe`: of what it is one, or null.
  [[nodiscard]] bool post(RequestToken token, const Request& request,
                          const wire::StripeBody* stripe = nullptr) noexcept;
  // True: the memory of the page is registered with this link's device.
  [[nodiscard]] bool knows(const PageRequest& page) const noexcept;
  // False: that request is not on this link.
  bool cancel(RequestToken token) noexcept;
  bool reset(RequestToken culprit) noexcept;

  // Takes what has ended or arrived; makes the upcalls.
  void serve(const Completion& completion, base::TimeNs now_ns) noexcept {
    channel_.serve(completion, *this, now_ns);
  }
  // Sends what there is to send; how much that was.
  int run() noexcept;
  // A life sign is due, or the peer's is overdue (true: it is dead).
  [[nodiscard]] bool check_life(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;
  // Of a closing channel: fences every request, and gives the link back.
  [[nodiscard]] std::unique_ptr<RdmaLink> finish_closing() noexcept;

private:
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

  // An answer is due: to a request, or to the life sign of an idle link.
  [[nodiscard]] bool is_watched() const noexcept { return in_flight_ > 0 || is_asking_; }
  // From now on silence counts.
  void begin_watch(base::TimeNs now_ns) noexcept {
    channel_.heard_ns = std::max(channel_.heard_ns, now_ns);
    pinged_ns_ = now_ns;
  }
  void ping(base::TimeNs now_ns) noexcept;
  void prove_path() noexcept;
  [[nodiscard]] bool on_part(const wire::Envelope& envelope,
                             std::span<const std::byte> part) noexcept override;
  void on_moved(std::uint32_t, std::uint32_t) noexcept override {}  // this side moves nothing

  [[nodiscard]] bool encode(RdmaPosted& posted, const Request& request) noexcept;
  std::uint32_t copy_inline_pages(RdmaPosted& posted, const Request& request,
                                  std::byte* to) noexcept;
  [[nodiscard]] bool name_targets(const RdmaPosted& posted, const Request& request) noexcept;
  void set_remaining(RdmaPosted& posted) noexcept;
  [[nodiscard]] bool send_roster() noexcept;
  void send_stripe(RdmaPosted& posted, std::uint32_t slot) noexcept;
  [[nodiscard]] bool send_part(std::uint32_t slot) noexcept;
  [[nodiscard]] bool end_reply(std::uint32_t slot) noexcept;
  void tell_faults(const RdmaPosted& posted) noexcept;
  void copy_inline_replies(RdmaPosted& posted) noexcept;
  [[nodiscard]] Status copy_out(const PageRequest& page, const std::byte* from,
                                std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint32_t find(RequestToken token) noexcept;
  void release(std::uint32_t slot) noexcept;

  RdmaRequesterShared& shared_;
  RdmaChannel channel_;
  base::LazyArray<RdmaPosted> slots_;
  base::FreeSlots free_;
  std::uint32_t in_flight_ = 0;
  std::uint64_t bytes_out_ = 0;
  TenantTurns work_;    // slots whose request is not all sent
  IndexQueue cancels_;  // slots whose cancel is due, behind their request
  std::uint32_t place_ = OwnRoster::kNone;
  base::TimeNs pinged_ns_ = 0;
  bool is_asking_ = false;  // whether the other end lives, for no request
  bool owes_ping_ = false;  // the first one, behind the roster
};

}  // namespace simm::transport
