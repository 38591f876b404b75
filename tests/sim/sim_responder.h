// SimResponder: a server shard's end of the simulated network. Moves copy a few bytes at a time
// with virtual time between the steps; like those of a NIC they go on while the server's process is
// paused. Also watches that its server keeps the rules of transport.h.
// Thread: the one simulated thread; upcalls come from do_work() only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/sim/network.h"
#include "tests/sim/server_end.h"

namespace simm::sim {

class SimResponder final : public ServerEnd {
public:
  SimResponder(Network& network, transport::Route route, const base::Clock& clock);
  // The server has died: nothing that it did or was asked goes on.
  ~SimResponder() override;

  void connect(transport::ResponderEvents& events) noexcept override { events_ = &events; }

  void pull(transport::Incoming& incoming, std::uint16_t page,
            std::span<std::byte> extent) noexcept override;
  void push(transport::Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  void reply(transport::Incoming& incoming,
             std::span<const transport::PageReply> pages) noexcept override;
  void drop_all() noexcept override;
  int do_work() noexcept override;
  int run_moves() noexcept override { return 0; }  // the network moves on its own
  [[nodiscard]] bool prepare_sleep() noexcept override;

  void crash() override;

  // From the network.
  void attach(const PathPtr& path);
  void on_arrival(const PathPtr& path, const std::shared_ptr<WireRequest>& wire);
  void on_cancel_arrival(const PathPtr& path, std::uint64_t serial);
  void on_path_end(const PathPtr& path);

  [[nodiscard]] std::size_t incoming_count() const noexcept override;

private:
  // A request that the server knows.
  struct Active {
    transport::Incoming incoming;
    PathPtr path;
    std::shared_ptr<WireRequest> wire;
    std::vector<transport::PageRequest> pages;  // what the server sees: slices without an address
    std::vector<bool> moving;
    std::size_t moves = 0;
    bool cancelled = false;
    bool answered = false;  // during crash() only
  };
  struct Move {
    Active* active = nullptr;
    PathPtr path;
    std::uint16_t page = 0;
    bool is_push = false;
    bool whole_digest = false;
    bool flip = false;  // one byte goes wrong on the way and nobody notices
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t length = 0;
    std::size_t copied = 0;
    std::vector<std::byte> sent;  // of a digested push
  };
  enum class EventKind : std::uint8_t { request, cancel, moved };
  struct Event {
    EventKind kind;
    std::shared_ptr<WireRequest> wire;  // request
    std::uint64_t serial = 0;           // cancel
    Active* active = nullptr;           // moved
    std::uint16_t page = 0;
    transport::MoveResult result;
  };
  struct PathEnd {
    PathPtr path;
    std::deque<Event> inbox;
    std::vector<std::unique_ptr<Active>> active;
  };

  Active* active_of(transport::Incoming& incoming, const char* what);
  void start(Active& active, std::uint16_t page, std::shared_ptr<Move> move);
  void next_step(const std::shared_ptr<Move>& move);
  void step(const std::shared_ptr<Move>& move);
  void finish(const std::shared_ptr<Move>& move, Status status);
  [[nodiscard]] bool ready(const PathEnd& end) const;
  void handle_one(PathEnd& end);
  void begin(PathEnd& end, const std::shared_ptr<WireRequest>& wire);
  void abort_idle(PathEnd& end);
  void forget(Active& active);

  Network& network_;
  transport::Route route_;
  const base::Clock& clock_;
  transport::ResponderEvents* events_ = nullptr;
  bool crashed_ = false;
  Active* dying_ = nullptr;                // the one that crash() is at
  std::map<std::uint64_t, PathEnd> ends_;  // by path id: older paths first
};

}  // namespace simm::sim
