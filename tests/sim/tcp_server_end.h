// TcpServerEnd: the production TcpResponder of one shard of a simulated server, over simulated
// sockets. Whatever passes between it and its server is noted for the histories. Also the part of
// the control thread that accepts: it counts the lives of daemons as production does.
// Thread: the one simulated thread.
#pragma once

#include <map>

#include "daemon/base/error_log.h"
#include "daemon/peers/asking_daemons.h"
#include "daemon/transport/region_mover.h"
#include "daemon/transport/tcp/tcp_responder.h"
#include "tests/sim/network.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_socket_io.h"

namespace simm::sim {

class TcpServerEnd final : public ServerEnd, private transport::ResponderEvents {
public:
  TcpServerEnd(const TcpScenario& scenario, Network& network, transport::Route route,
               const base::Clock& clock);
  // The server has died: nothing that it did or was asked goes on.
  ~TcpServerEnd() override;

  [[nodiscard]] SimSocketIo& io() { return io_; }
  // A hello has ended: that node's process, of that incarnation, has dialled.
  void accept(const ConnectionPtr& connection, const cluster::DaemonIdentity& dialler);

  void lose_network(bool silent) override { io_.die(silent); }
  void crash() override;
  [[nodiscard]] std::size_t incoming_count() const noexcept override { return active_.size(); }

  void connect(transport::ResponderEvents& events) noexcept override { events_ = &events; }
  void pull(transport::Incoming& incoming, std::uint16_t page,
            std::span<std::byte> extent) noexcept override;
  void push(transport::Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  [[nodiscard]] bool always_digests() const noexcept override {
    return responder_.always_digests();
  }
  void note_progress(transport::Incoming& incoming) noexcept override {
    responder_.note_progress(incoming);
  }
  void reply(transport::Incoming& incoming,
             std::span<const transport::PageReply> pages) noexcept override;
  void drop_all() noexcept override { responder_.drop_all(); }
  int do_work() noexcept override;
  int run_moves() noexcept override { return responder_.run_moves(); }
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override {
    return responder_.next_deadline_ns();
  }
  [[nodiscard]] bool prepare_sleep() noexcept override { return responder_.prepare_sleep(); }

private:
  // A request that the server knows.
  struct Active {
    WireRequestPtr wire;
    bool is_cancelled = false;
  };

  void on_request(transport::Incoming& incoming) noexcept override;
  void on_moved(transport::Incoming& incoming, std::uint16_t page,
                transport::MoveResult result) noexcept override;
  void on_cancel(transport::Incoming& incoming) noexcept override;
  void on_aborted(transport::Incoming& incoming) noexcept override;
  Active* active_of(transport::Incoming& incoming, const char* what);

  Network& network_;
  const transport::Route route_;
  transport::ResponderEvents* events_ = nullptr;
  bool is_crashed_ = false;
  base::ErrorLog errors_;
  control::AskingDaemons daemons_;
  std::map<std::uint64_t, control::AskingDaemons::Link> askers_;  // by link
  std::map<std::uint64_t, ConnectionPtr> connections_;            // likewise
  std::map<transport::Incoming*, Active> active_;
  SimSocketIo io_;
  transport::RequesterRosters rosters_;
  transport::TcpLinkMailbox mail_;
  transport::TcpResponder responder_;
};

}  // namespace simm::sim
