// LocalResponder: the server's end of the local transport: takes requests from the channels of all
// engines of this process and makes the copies. A turn serves every channel that has something;
// payloads are copied in bounded steps, the requests taking turns, so a large batch holds up nobody
// for longer than its step.
// Thread: the server's data agent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/transport/local/local_channel.h"
#include "daemon/transport/mover.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

struct LocalResponderConfig {
  std::uint32_t commands_per_turn = 64;        // of each channel
  std::uint64_t bytes_per_turn = 1024 * 1024;  // of all requests together
  std::uint64_t bytes_per_request =
      256 * 1024;                       // of one request before the next one's turn; a step
  std::uint64_t move_cost_bytes = 512;  // what a move counts besides its bytes
  std::uint32_t moves_ahead = 15;       // of a request, begun while the first one waits
};

class LocalResponder final : public Responder {
public:
  // Clock, channels, inbox and mover outlive the responder. Commands of channels[i] are marked in
  // `inbox` under i.
  LocalResponder(const LocalResponderConfig& config, const base::Clock& clock,
                 const std::vector<LocalChannel*>& channels, LocalInbox& inbox, Mover& mover);

  void connect(ResponderEvents& events) noexcept override { events_ = &events; }
  void pull(Incoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept override;
  void push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  void name_pushed(Incoming& incoming, const memory::ObjectPart& object) noexcept override;
  void note_progress(Incoming& incoming) noexcept override;
  void reply(Incoming& incoming, std::span<const PageReply> pages) noexcept override;
  void drop_all() noexcept override { is_dropping_ = true; }
  int do_work() noexcept override;
  int run_moves() noexcept override;  // the copies
  // A copy that is made elsewhere: the agent may sleep, but not for long, since nobody wakes it.
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return !is_dropping_; }

private:
  struct Lane {
    LocalChannel* channel = nullptr;
    std::unique_ptr<std::uint32_t[]> serving;  // the use of each slot that we hold; 0: none
  };

  static LocalRequest& request_of(Incoming& incoming) noexcept;
  void give_back(LocalRequest& request, LocalEvent::Kind kind) noexcept;

  int take_commands(std::uint32_t lane_index) noexcept;
  void take_post(std::uint32_t lane_index, LocalCommand command) noexcept;
  void take_cancel(LocalRequest& request) noexcept;
  void take_reset(LocalRequest& request) noexcept;
  void reset_all() noexcept;
  void abort(LocalRequest& request) noexcept;

  void add_move(LocalRequest& request, const Move& move) noexcept;
  void list_active(LocalRequest& request) noexcept;
  LocalRequest* next_active() noexcept;
  bool run_request(LocalRequest& request, std::uint64_t& budget_bytes) noexcept;
  bool run_front(LocalRequest& request) noexcept;
  void begin_more(LocalRequest& request) noexcept;
  void end_front(LocalRequest& request) noexcept;

  const LocalResponderConfig config_;
  const base::Clock& clock_;
  Mover& mover_;
  LocalInbox& inbox_;
  std::uint64_t marked_ = 0;  // lanes with commands, a bit each
  ResponderEvents* events_ = nullptr;
  std::vector<Lane> lanes_;
  // Requests with open moves, in turn: singly linked through LocalRequest::next_active.
  LocalRequest* active_first_ = nullptr;
  LocalRequest* active_last_ = nullptr;
  std::uint32_t active_count_ = 0;
  bool is_dropping_ = false;  // every request is to be aborted
};

}  // namespace simm::transport
