// SharedReadServer: one fetch per node. Processes of a node that read the same objects of other
// daemons (the tensor-parallel ranks of one model) send such reads here instead of to the owners.
// The first one starts a shared read: the object is fetched into memory of this daemon's own.
// Everybody who asks meanwhile waits for it; the copies of all of them, the first one's too, are
// made from that memory, so a requester that writes into its own buffer harms nobody else. The
// object stays for `linger_ns` since its fetch began, as long as there is room, the least recently
// used one leaving first.
//
// What a requester gets is a whole object that its owner had not longer than linger_ns before it
// asked, and never one from before a put or remove of this node that had completed then
// (WriteMarks). Puts and removes of other nodes, and the end of an object's time to live, are so
// seen up to linger_ns late; an object that is not there is not remembered. Lease: the owner counts
// it from the fetch, so it ends up to linger_ns early for those who are served by a copy; one who
// asks for a longer lease than the fetch did gets a fetch of its own.
//
// A key of an immutable namespace has one value for ever (RequestHeader::immutable). Its copy does
// not become too old while it is used: CopyConfirmer asks the owner in the background whether the
// object is there still, and no reader waits for that.
//
// Fetches go through the engine of this agent: its deadlines, fences, maps and its transports'
// checks of what arrives are theirs too. A fetch goes on when its requesters have given up: it
// touches no client's memory. It is made anew when somebody joined it whose deadline is later.
//
// Nobody can use so much of this that others find nothing (TenantShares), and whoever finds nothing
// asks the owner itself. Pages answer as a server's do: ok, not_found, size_mismatch,
// invalid_argument, timeout, cancelled, transfer_failed; and no_space: ask the owner.
//
// Owned by main (or a test). Engine, clock, marks and memory outlive it; its responder ends first,
// and the engine makes no turn after it is gone. No allocation after construction.
// Thread: its data agent, which is the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/agent.h"
#include "daemon/base/lazy_array.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/write_marks.h"
#include "daemon/memory/region.h"
#include "daemon/shared_reads/copy_confirmer.h"
#include "daemon/shared_reads/shared_read.h"
#include "daemon/shared_reads/shared_read_config.h"
#include "daemon/shared_reads/shared_read_counters.h"
#include "daemon/shared_reads/shared_read_room.h"
#include "daemon/store/space/reserved_memory.h"
#include "simm/expected.h"

namespace simm::shared_reads {

class SharedReadServer final : public transport::ResponderEvents,
                               public engine::OperationEvents,
                               public base::Agent {
public:
  struct Setup {
    engine::Engine& engine;  // its EngineConfig::fetches is at least the config's operations()
    const base::Clock& clock;
    const engine::WriteMarks& marks;
    std::span<std::byte> memory;  // this shard's part of node.cache_bytes
    memory::RegionKeys* keys;     // what RDMA ports know of it; null: none does
    SharedReadCounters counters;
  };
  // Fails when address space for the tables is refused, or the memory is less than one line.
  static Expected<std::unique_ptr<SharedReadServer>> create(const SharedReadConfig& config,
                                                            const Setup& setup);
  ~SharedReadServer() override;

  void on_request(transport::Incoming& incoming) noexcept override;
  void on_moved(transport::Incoming& incoming, std::uint16_t page,
                transport::MoveResult result) noexcept override;
  void on_cancel(transport::Incoming& incoming) noexcept override;
  void on_aborted(transport::Incoming& incoming) noexcept override;

  void on_complete(engine::Operation& operation) noexcept override;
  void on_progress(engine::Operation& operation) noexcept override;

  // Looks at pages, starts fetches and copies. Its turn comes after that of its responder, and
  // before those of the moves and of the engine.
  int do_work() noexcept override;
  base::TimeNs next_deadline_ns() const noexcept override { return confirmer_.next_deadline_ns(); }
  const char* name() const noexcept override { return "shared reads"; }

  [[nodiscard]] std::uint32_t requests_under_way() const noexcept { return jobs_.used(); }
  [[nodiscard]] std::uint32_t shared_reads() const noexcept { return shared_reads_.used(); }
  [[nodiscard]] const TenantShares& shares() const noexcept { return room_.shares(); }
  // Recounts everything; null, or what does not add up. For tests: O(everything).
  [[nodiscard]] const char* audit() const noexcept {
    return room_.audit({jobs_.used(), config_.fetches_max - free_fetch_count_, waiters_});
  }

private:
  struct Tables;
  using SharedReadList = store::IndexList<SharedRead, &SharedRead::order>;

  SharedReadServer(const SharedReadConfig& config, const Setup& setup, store::ReservedMemory memory,
                   const Tables& tables);

  // Requests.
  int take_pages() noexcept;
  void take_some(std::uint32_t share, std::uint32_t pages_max) noexcept;
  void take_page(SharedReadJob& job, std::uint16_t page) noexcept;
  void wait_for(std::uint32_t shared_read, SharedReadJob& job, std::uint16_t page) noexcept;
  void serve(std::uint32_t shared_read, SharedReadJob& job, std::uint16_t page) noexcept;
  void answer(SharedReadJob& job, std::uint16_t page, transport::PageReply reply) noexcept;
  void remove_waiter(std::uint32_t waiter) noexcept;
  void stop(SharedReadJob& job) noexcept;
  void finish_if_over(SharedReadJob& job) noexcept;
  void release(SharedReadJob& job) noexcept;
  [[nodiscard]] static SharedReadJob& job_of(const transport::Incoming& incoming) noexcept;
  static Status outcome_for(const SharedRead& shared_read, const transport::RequestHeader& header,
                            std::uint64_t view_bytes) noexcept;

  // Fetches.
  int start_fetches() noexcept;
  void fetch_some(std::uint32_t share, engine::Operation& operation) noexcept;
  void land(std::uint32_t shared_read, Status status, std::uint64_t bytes,
            base::TimeNs deadline_ns) noexcept;
  int serve_landed() noexcept;

  const SharedReadConfig config_;
  engine::Engine& engine_;
  const base::Clock& clock_;
  SharedReadCounters counters_;
  const std::span<std::byte> extents_memory_;
  memory::Region region_;  // the same, as a destination of fetches

  const store::ReservedMemory tables_memory_;
  store::Table<SharedReadJob> jobs_;
  store::Table<Waiter> waiters_;
  SharedReadRoom room_;
  store::Table<SharedRead>& shared_reads_;  // of the room
  TenantShares& shares_;                    // the same
  CopyConfirmer confirmer_;
  base::LazyArray<SharedReadPages> pages_;  // of job n at n - 1

  SharedReadList serving_;       // landed, with waiters
  std::uint32_t arrived_ = 0;    // jobs with pages to look at
  std::uint32_t take_next_ = 0;  // the share whose turn it is
  std::uint32_t fetch_next_ = 0;

  std::unique_ptr<std::uint32_t[]> fetched_;  // shared reads of each fetch, fetch_pages_max each
  std::unique_ptr<std::uint32_t[]> free_fetches_;  // a stack
  std::uint32_t free_fetch_count_;
};

}  // namespace simm::shared_reads
