// RequestTap: stands between a server and the transports that serve it, and notes for the histories
// what passes: which requests came, under which map their pages were moved, and their answers.
// Owned by a ServerEnd. Thread: the one simulated thread.
#pragma once

#include <map>
#include <vector>

#include "daemon/transport/transport.h"
#include "tests/sim/network.h"

namespace simm::sim {

class RequestTap final : public transport::ServerOrders, public transport::ResponderEvents {
public:
  // `map_epoch`: of the map that the server uses, always.
  RequestTap(Network& network, const base::Epoch& map_epoch, Carrier carrier)
      : network_(network), map_epoch_(map_epoch), carrier_(carrier) {}

  void connect(transport::ResponderEvents& server) { server_ = &server; }
  [[nodiscard]] std::size_t active() const { return active_.size(); }
  // The server is dead: nothing that it still answers is heard.
  void deafen() { is_deaf_ = true; }
  // Behind that: what is left ends for the server, though its transport does not run any more.
  void abort_all();

  // ServerOrders, of the server.
  void pull(transport::Incoming& incoming, std::uint16_t page,
            std::span<std::byte> extent) noexcept override;
  void push(transport::Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  [[nodiscard]] bool always_digests() const noexcept override {
    return carrier_ == Carrier::sockets;
  }
  void note_progress(transport::Incoming& incoming) noexcept override;
  void reply(transport::Incoming& incoming,
             std::span<const transport::PageReply> pages) noexcept override;

  // ResponderEvents, of the transport.
  void on_request(transport::Incoming& incoming) noexcept override;
  void on_moved(transport::Incoming& incoming, std::uint16_t page,
                transport::MoveResult result) noexcept override;
  void on_cancel(transport::Incoming& incoming) noexcept override;
  void on_aborted(transport::Incoming& incoming) noexcept override;

private:
  // A request that the server knows.
  struct Active {
    WireRequestPtr wire;
    transport::ServerOrders* orders = nullptr;  // whose it is
    std::vector<bool> is_moving;                // by page
    bool is_cancelled = false;
  };
  Active* active_of(transport::Incoming& incoming, const char* what);
  Active* begin_move(transport::Incoming& incoming, std::uint16_t page, const char* what);

  Network& network_;
  const base::Epoch& map_epoch_;
  const Carrier carrier_;
  transport::ResponderEvents* server_ = nullptr;
  bool is_deaf_ = false;
  bool is_cut_off_ = false;  // from the transport
  std::map<transport::Incoming*, Active> active_;
};

}  // namespace simm::sim
