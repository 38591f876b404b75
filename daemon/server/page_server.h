// PageServer: serves the pages of gets and puts, one at a time. start() pins the object of a get,
// or reserves room for that of a put, and lets the responder move its bytes; end() checks what was
// moved, publishes a put, and writes the page's answer (server.h lists the answers). Which page of
// which request is next, and when a request is over, is the Server's.
//
// Owned by the Server; store, clock, slots, hot keys and configuration outlive it. Thread: its data
// agent.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/server/expected_objects.h"
#include "daemon/server/hot_keys.h"
#include "daemon/server/job.h"
#include "daemon/server/owned_slots.h"
#include "daemon/server/server_config.h"
#include "daemon/server/server_counters.h"
#include "daemon/server/slot_arrivals.h"
#include "daemon/store/store.h"
#include "daemon/transport/transport.h"

namespace simm::server {

class PageServer {
public:
  // What became of the attempt to start a page.
  struct Started {
    // arriving: its object is on its way from the former owner of its slot.
    enum class What : std::uint8_t { moving, answered, no_room, arriving } what = What::answered;
    std::uint64_t bytes = 0;
  };

  PageServer(const ServerConfig& config, store::Store& store, const base::Clock& clock,
             const OwnedSlots& slots, SlotArrivals& arrivals, ExpectedObjects& expected,
             HotKeys& hot_keys, ServerCounters& counters)
      : config_(config),
        store_(store),
        clock_(clock),
        slots_(slots),
        arrivals_(arrivals),
        expected_(expected),
        hot_keys_(hot_keys),
        counters_(counters) {}

  [[nodiscard]] Started start(Job& job, std::uint16_t page, base::TimeNs now_ns) noexcept {
    const ipc::Opcode opcode = job.incoming->header.opcode;
    if (opcode == ipc::Opcode::get) return start_get(job, page, now_ns);
    if (opcode == ipc::Opcode::put) return start_put(job, page, now_ns);
    return start_exists(job, page, now_ns);
  }
  // The bytes of a page that was moving have moved, or will not.
  void end(Job& job, std::uint16_t page, transport::MoveResult result) noexcept {
    const bool is_get = job.incoming->header.opcode == ipc::Opcode::get;
    is_get ? end_get(job, page, result) : end_put(job, page, result);
  }
  // Somebody writes or removes that key: nothing that moved may come behind it.
  void note_write(std::uint64_t group, base::KeyHash key) noexcept {
    const base::Slot slot = base::slot_of(group);
    expected_.end(slot, key);
    if (!arrivals_.note_write(slot, key)) counters_.arrivals_ended.add();
  }
  void note_remove(std::uint64_t group, base::KeyHash key, bool is_kept_twice) noexcept {
    const base::Slot slot = base::slot_of(group);
    expected_.end(slot, key);
    if (!arrivals_.note_remove(slot, key, is_kept_twice)) counters_.arrivals_ended.add();
  }
  // How many objects have come from other owners.
  [[nodiscard]] std::uint64_t arrived() const noexcept { return arrived_; }
  // Whether a page of the request may wait for an object of a former owner. These are asked for, so
  // that all are on their way when the first one is waited for.
  [[nodiscard]] bool ask_for(const transport::Incoming& incoming, base::TimeNs now_ns) noexcept;
  // The answer of a page of the job, counted by its cause.
  void answer(Job& job, std::uint16_t page, Status status, std::uint64_t bytes) noexcept;

private:
  Started start_get(Job& job, std::uint16_t page, base::TimeNs now_ns) noexcept;
  Started start_put(Job& job, std::uint16_t page, base::TimeNs now_ns) noexcept;
  Started start_exists(Job& job, std::uint16_t page, base::TimeNs now_ns) noexcept;
  [[nodiscard]] bool awaits(Job& job, std::uint16_t page, base::TimeNs now_ns) noexcept;
  void note_end_of_wait(Job& job, std::uint16_t page, bool is_hit) noexcept;
  [[nodiscard]] Status may_arrive(const Job& job, const transport::PageRequest& page) noexcept;
  void refuse_moved(Job& job, std::uint16_t page, Status status) noexcept;
  [[nodiscard]] bool sample() noexcept;
  [[nodiscard]] bool ranged_is_sound(const store::ReadPin& pin, base::TimeNs now_ns) noexcept;
  void end_get(Job& job, std::uint16_t page, transport::MoveResult result) noexcept;
  void end_put(Job& job, std::uint16_t page, transport::MoveResult result) noexcept;

  const ServerConfig& config_;
  store::Store& store_;
  const base::Clock& clock_;
  const OwnedSlots& slots_;
  SlotArrivals& arrivals_;
  ExpectedObjects& expected_;
  HotKeys& hot_keys_;
  ServerCounters& counters_;
  std::uint32_t sample_ = 0;
  std::uint64_t arrived_ = 0;
};

}  // namespace simm::server
