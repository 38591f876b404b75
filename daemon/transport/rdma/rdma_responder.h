// RdmaResponder: the server's end of the RDMA transport: links that other daemons made to this
// shard. A requester that is silent for peer_silence_ns while requests of it are served is dead:
// its link ends, and what it asked for is aborted. So does one that lives, and lets moves wait for
// that long (payload_progress.h). Thread: the server's data agent; made on the control thread.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/transport/rdma/rdma_link_set.h"
#include "daemon/transport/rdma/rdma_responder_link.h"
#include "daemon/transport/rdma/rdma_stripes.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class RdmaResponder final : public Responder, private RosterListener {
public:
  // All references outlive the responder. `ports` by rail, of this end alone.
  RdmaResponder(const RdmaResponderConfig& config, const base::Clock& clock,
                std::vector<RdmaPort*> ports, const MemoryKeys& keys, RequesterRosters& rosters,
                RdmaLinkMailbox& mailbox, const RdmaCounters& counters = {});
  // Fences every link; nobody is told. On the agent's thread, or when that has ended.
  ~RdmaResponder() override = default;
  RdmaResponder(const RdmaResponder&) = delete;
  RdmaResponder& operator=(const RdmaResponder&) = delete;

  void connect(ResponderEvents& events) noexcept override { stripes_.connect(events); }
  void drop_all() noexcept override { links_.drop_all(); }

  void pull(Incoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept override;
  void push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  void reply(Incoming& incoming, std::span<const PageReply> pages) noexcept override;
  int do_work() noexcept override;
  int run_moves() noexcept override;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override {
    return !has_orders_ && !stripes_.has_work() && links_.prepare_sleep();
  }

private:
  void on_roster(const LinkRoster& roster, bool remembers_all) noexcept override;
  void on_new_life(std::uint32_t daemon) noexcept override;

  const RdmaResponderConfig config_;
  RdmaStripes stripes_;
  RdmaResponderShared shared_;
  RdmaLinkSet<RdmaResponderLink> links_;  // after what it uses
  base::TimeNs turn_ns_ = 0;              // when the last turn began
  bool has_orders_ = false;               // of the server, since the last turn
};

}  // namespace simm::transport
