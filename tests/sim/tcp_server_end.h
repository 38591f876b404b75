// TcpServerEnd: the production TcpResponder of one shard of a simulated server, over simulated
// sockets, and in some runs its RdmaServerPart beside it. Whatever passes between them and the
// server is noted for the histories. Also the part of the control thread that accepts: it counts
// the lives of daemons as production does.
// Thread: the one simulated thread.
#pragma once

#include <map>

#include "daemon/base/error_log.h"
#include "daemon/peers/asking_daemons.h"
#include "daemon/transport/region_mover.h"
#include "daemon/transport/tcp/tcp_responder.h"
#include "tests/sim/network.h"
#include "tests/sim/rdma_server_part.h"
#include "tests/sim/request_tap.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_socket_io.h"

namespace simm::sim {

class TcpServerEnd final : public ServerEnd {
public:
  // `arena`: the memory of the shard.
  TcpServerEnd(const Scenario& scenario, Network& network, transport::Route route,
               const base::Clock& clock, std::span<std::byte> arena);
  // The server has died: nothing that it did or was asked goes on.
  ~TcpServerEnd() override;

  [[nodiscard]] SimSocketIo& io() { return io_; }
  // A hello has ended: that node's process, of that incarnation, has dialled.
  void accept(const ConnectionPtr& connection, const cluster::DaemonIdentity& dialler);
  // Null in runs without.
  [[nodiscard]] RdmaServerPart* rdma() { return rdma_.get(); }

  void lose_network(bool silent) override;
  void crash() override;
  [[nodiscard]] std::size_t incoming_count() const noexcept override {
    return tap_.active() + rdma_tap_.active();
  }

  void connect(transport::ResponderEvents& events) noexcept override {
    tap_.connect(events);
    rdma_tap_.connect(events);
  }
  void drop_all() noexcept override;
  int do_work() noexcept override;
  int run_moves() noexcept override;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return responder_.prepare_sleep(); }

  // Its requests have taps of their own between the server and their transport.
  void pull(transport::Incoming& incoming, std::uint16_t page,
            std::span<std::byte> extent) noexcept override {
    tap_.pull(incoming, page, extent);
  }
  void push(transport::Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override {
    tap_.push(incoming, page, bytes, whole_digest);
  }
  void reply(transport::Incoming& incoming,
             std::span<const transport::PageReply> pages) noexcept override {
    tap_.reply(incoming, pages);
  }

private:
  Network& network_;
  const transport::Route route_;
  bool is_crashed_ = false;
  base::ErrorLog errors_;
  control::AskingDaemons daemons_;
  std::map<std::uint64_t, control::AskingDaemons::Link> askers_;  // by link
  std::map<std::uint64_t, ConnectionPtr> connections_;            // likewise
  RequestTap tap_;
  RequestTap rdma_tap_;
  SimSocketIo io_;
  transport::RequesterRosters rosters_;
  transport::TcpLinkMailbox mail_;
  transport::TcpResponder responder_;
  std::unique_ptr<RdmaServerPart> rdma_;
};

}  // namespace simm::sim
