// Server: owns the objects of one shard and serves requests for them, from any number of
// responders.
//
// A request says under which map its requester chose this server. It is served when this server
// owns the page's slot under its own map and has owned it ever since the requester's: then there
// has been no other owner in between. A requester with a newer map than the server's has to wait
// until the server has it too.
//
// exists, remove, pin and unpin are answered at once. A get or put becomes a job: page by page it
// pins an object or reserves room, and lets the responder move the bytes, with a bounded number of
// moves under way for each requester; tenants, and the requesters of each, take turns by bytes
// (fair_queue.h). A put page is published when its bytes have arrived, unless the request was
// cancelled or the page's slot was lost meanwhile. The reply goes out when no move is under way any
// more. Pages answer:
//
//   ok                exists, get: with the length; put: visible now (or if_absent: was already)
//   not_found         no such object
//   size_mismatch     exact_size, and the object (or the range asked for) has another length
//   invalid_argument  a length, offset or key out of range; a whole get into too small a slice
//   corrupt           the payload did not match its checksum; the object is quarantined
//   no_space          no room within half of the time that the request had left, or not without
//                     evicting far more than the object has; pin: no budget
//   out_of_memory     requests_max or the store's tenants_max is reached
//   unreachable       the server is closed: its store is still being recovered. A miss would be a
//                     lie, and a put would meet an older object of its key later
//   wrong_epoch       the slot is not this server's, or was not at some time since the requester's
//   map;
//                     or the server does not know the requester's map yet
//   timeout, cancelled, transfer_failed
//
// Owned by main (or a test); the store and the clock outlive it. Thread: its data agent.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "daemon/base/agent.h"
#include "daemon/base/lazy_array.h"
#include "daemon/server/expected_objects.h"
#include "daemon/server/fair_queue.h"
#include "daemon/server/hot_keys.h"
#include "daemon/server/job.h"
#include "daemon/server/owned_slots.h"
#include "daemon/server/page_server.h"
#include "daemon/server/scrubber.h"
#include "daemon/server/server_config.h"
#include "daemon/server/server_counters.h"
#include "daemon/server/slot_arrivals.h"
#include "daemon/server/store_counters.h"
#include "daemon/store/store.h"
#include "daemon/transport/transport.h"

namespace simm::server {

class Server final : public transport::ResponderEvents, public base::Agent {
public:
  // `errors` may be null; it outlives the server.
  Server(const ServerConfig& config, store::Store& store, const base::Clock& clock,
         ServerCounters counters = {}, StoreCounters store_counters = {},
         ScrubCounters scrub_counters = {}, base::ErrorLog* errors = nullptr);
  ~Server() override;

  // At set-up: until `recovered`, which outlives it, is true, another thread works on the store,
  // and nothing is asked of it. Objects whose slots were lost meanwhile are missed from then on.
  // `last_map`: epoch of the newest one that an earlier process of this shard had.
  void close_until(const std::atomic<bool>& recovered, base::Epoch last_map) noexcept {
    recovered_ = &recovered;
    has_earlier_life_ = true;
    arrivals_.had_earlier_life(last_map);
  }
  [[nodiscard]] bool is_open() const noexcept { return recovered_ == nullptr; }

  // The slots of this server from now on; copied. Objects of a slot that was lost, or that was lost
  // and has come back, are missed at once, puts into it that are under way are not published, and
  // its memory is freed bit by bit in later turns. A map older than the last one is ignored.
  // `departures`: of these, what may move on to the new owners stays in the store, and is served to
  // nobody; null: nothing does.
  void use_map(const base::SlotOwnership& map,
               const base::SlotDepartures* departures = nullptr) noexcept;
  // Since when the mirrors of these slots have their owners, who are given copies from here
  // (cluster/refill_book.h). Who removes something under an older map does not know these owners,
  // and is refused: what is removed here could come back from there.
  void note_refills(const base::SlotDepartures& refills) noexcept;
  // How many objects have come from other owners, and whether more are known to be on their way.
  [[nodiscard]] std::uint64_t arrived() const noexcept { return pages_.arrived(); }
  [[nodiscard]] bool awaits_objects() const noexcept { return !expected_.is_idle(); }
  // What may move on now. It stays where it is, and changes with maps.
  [[nodiscard]] const base::SlotDepartures& departures() const noexcept { return *departures_; }
  // Nothing more will move on.
  void end_departures() noexcept;
  // Nothing of lost slots is left.
  [[nodiscard]] bool has_dropped_lost_slots() const noexcept {
    return is_open() && !store_.dropping_slots();
  }

  // At set-up: where requests are recorded that are sampled. It outlives the server.
  void trace_with(base::Tracer& tracer) noexcept { tracer_ = &tracer; }

  void on_request(transport::Incoming& incoming) noexcept override;
  void on_moved(transport::Incoming& incoming, std::uint16_t page,
                transport::MoveResult result) noexcept override;
  void on_cancel(transport::Incoming& incoming) noexcept override;
  void on_aborted(transport::Incoming& incoming) noexcept override;

  // Starts moves, lets waiting puts try again, and gives the store and the scrubber their turns.
  int do_work() noexcept override;
  base::TimeNs next_deadline_ns() const noexcept override;
  const char* name() const noexcept override { return "server"; }

  [[nodiscard]] std::uint32_t requests_under_way() const noexcept {
    return jobs_busy_ + expected_.calls();
  }
  [[nodiscard]] std::uint32_t moves_under_way() const noexcept { return queue_.moves(); }
  // What each tenant has of the store, for the control thread: as old as the counters.
  [[nodiscard]] store::TenantTables& tenants() noexcept { return tenants_; }
  // The keys that it is asked for most, for the control thread: as old as the counters.
  [[nodiscard]] base::HotTables& hot_keys() noexcept { return hot_keys_.tables(); }
  [[nodiscard]] const FairQueue& queue() const noexcept { return queue_; }

private:
  // Tracing.
  void choose_traces(transport::Incoming& incoming) noexcept;
  void trace_request(transport::Incoming& incoming) noexcept;
  void begin_trace(Job& job) noexcept;
  void reply_traced(Job& job, std::span<const transport::PageReply> replies) noexcept;
  void push_trace(base::TraceRecord record, const base::TraceMark& mark,
                  std::span<const transport::PageReply> replies) noexcept;

  // Requests.
  void serve_request(transport::Incoming& incoming) noexcept;
  [[nodiscard]] Status refusal_of(const transport::Incoming& incoming) const noexcept;
  void answer_all(transport::Incoming& incoming, Status status) noexcept;
  void refuse_slot(std::size_t page) noexcept;
  void answer_exists(transport::Incoming& incoming) noexcept;
  void answer_remove(transport::Incoming& incoming) noexcept;
  void answer_pin(transport::Incoming& incoming) noexcept;
  [[nodiscard]] static bool is_tell(const transport::Incoming& incoming) noexcept {
    return incoming.header.is_moved && incoming.header.opcode == ipc::Opcode::exists;
  }
  void start_job(transport::Incoming& incoming, base::TimeNs now_ns) noexcept;
  void stop(Job& job, Status status) noexcept;
  void finish_if_over(Job& job) noexcept;
  void release(Job& job) noexcept;

  // Turns.
  [[nodiscard]] bool open_if_recovered() noexcept;
  void publish() noexcept;
  int retry_waiting() noexcept;
  void retry_arriving(base::TimeNs now_ns) noexcept;
  void park(Job& job, JobList& list, bool Job::*waits) noexcept;
  int start_moves(base::TimeNs now_ns) noexcept;
  // One page of the job whose turn it is.
  void start_page(Job& job, base::TimeNs now_ns) noexcept;
  [[nodiscard]] bool window_open(const Job& job) const noexcept;

  const ServerConfig config_;
  store::Store& store_;
  const base::Clock& clock_;
  ServerCounters counters_;
  StoreCounters store_counters_;
  store::TenantTables tenants_;
  base::Tracer* tracer_ = nullptr;
  OwnedSlots slots_;
  const std::unique_ptr<base::SlotDepartures> departures_;
  base::LazyArray<base::Epoch> mirror_since_;  // by slot; 0: it was never refilled
  // Of the first map, where an earlier process may have given second copies away; else 0.
  base::Epoch reborn_at_ = 0;
  bool has_earlier_life_ = false;
  SlotArrivals arrivals_;
  ExpectedObjects expected_;
  HotKeys hot_keys_;
  PageServer pages_;

  Scrubber scrubber_;
  const std::atomic<bool>* recovered_ = nullptr;  // null: the store is served

  std::unique_ptr<Job[]> jobs_;
  base::LazyArray<JobPages> job_pages_;
  JobList free_jobs_;
  JobList waiting_;  // for space
  std::uint32_t waiting_count_ = 0;
  JobList arriving_;  // that wait for objects on their way
  base::TimeNs arriving_looked_ns_ = 0;
  FairQueue queue_;
  std::uint32_t jobs_busy_ = 0;
  base::TimeNs turn_ns_ = 0;     // of the last do_work()
  base::TimeNs publish_ns_ = 0;  // when counters, tenants and hot keys are published next
  bool has_changed_ = false;     // since they were
  std::array<transport::PageReply, ipc::kPagesPerSubmissionMax> scratch_;  // answers without a job
};

}  // namespace simm::server
