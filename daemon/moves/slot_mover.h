// SlotMover: sends the objects of slots that a shard has lost to the new owners of these slots.
//
// An object is offered as a put that takes the place of nothing, into the tenure that follows
// directly on this shard's. The new owner takes it unless somebody has written or removed its key
// there since, or there is no room. Whatever becomes of the offer, the object is not served
// here any more, and goes. New owners are told what there is before it is sent (move_teller.h).
// What their clients wait for is offered first of all. Then what is used and what begins a prefix
// goes: a tail without its head is of no use. Bytes in a second are bounded. What gets no answer is
// offered again, with growing pauses; after some rounds without any success, and at the end of the
// move window, the rest is dropped. So a move that can not be made ends as misses.
//
// Owned by its DataAgent; store, server, engine and clock outlive it. No allocation after
// construction. Thread: that agent.
#pragma once

#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/moves/move_teller.h"
#include "daemon/moves/mover_counters.h"
#include "daemon/moves/object_offers.h"
#include "daemon/server/server.h"
#include "daemon/store/store.h"

namespace simm::moves {

struct MoverConfig {
  std::uint64_t bytes_per_s = 0;
  base::TimeNs window_ns = 0;
  base::TimeNs offer_ns = 2 * base::kNsPerSecond;  // deadline of one message
  base::TimeNs grace_ns = 100 * base::kNsPerMs;    // of the engine, behind it
  base::TimeNs pause_min_ns = 50 * base::kNsPerMs;
  base::TimeNs pause_max_ns = 5 * base::kNsPerSecond;
  std::uint32_t vain_rounds_max = 10;  // in a row, in which nothing was taken or refused
  std::uint32_t records_per_turn = 256;
  std::uint64_t batch_bytes_max = 4 * 1024 * 1024;  // one object may be longer
  TellerConfig teller;
};

class SlotMover final : public engine::OperationEvents {
public:
  // Messages under way at one time, and those with what somebody waits for.
  static constexpr std::uint32_t kBatchesMax = 2;
  static constexpr std::uint32_t kWantedBatchesMax = 4;
  // So many fetches the engine keeps for this.
  static constexpr std::uint32_t kOperationsMax =
      kBatchesMax + kWantedBatchesMax + MoveTeller::kOperationsMax;

  SlotMover(const MoverConfig& config, store::Store& store, server::Server& server,
            engine::Engine& engine, const base::Clock& clock, MoverCounters counters = {});

  // The server has a map that may have changed its departures.
  void on_map() noexcept;
  int do_work() noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;
  // Objects of lost slots may still move.
  [[nodiscard]] bool is_busy() const noexcept { return is_active_ || offers_.out() > 0; }

  void on_complete(engine::Operation& operation) noexcept override;

private:
  // From the most worth to the least.
  static constexpr std::uint32_t kPasses = 4;

  [[nodiscard]] static std::uint32_t pass_of(const store::DepartingObject& object) noexcept;
  int send_batch(base::TimeNs now_ns) noexcept;
  int send_wanted(base::TimeNs now_ns) noexcept;
  // The next objects that go together; how many records were looked at.
  int gather(engine::Operation& operation) noexcept;
  void gather_wanted(engine::Operation& operation) noexcept;
  // False: it does not go with what is in there already.
  [[nodiscard]] bool add(engine::Operation& operation, std::uint32_t record,
                         const store::DepartingObject& object) noexcept;
  void end_page(const store::ReadPin& pin, Status status) noexcept;
  void end_round(base::TimeNs now_ns) noexcept;
  void end(bool is_early) noexcept;

  const MoverConfig config_;
  store::Store& store_;
  server::Server& server_;
  const base::Clock& clock_;
  MoverCounters counters_;
  ObjectOffers offers_;
  MoveTeller teller_;
  OfferBudget budget_;
  std::uint32_t wanted_out_ = 0;  // batches of those

  bool is_active_ = false;
  base::TimeNs ends_ns_ = 0;
  base::TimeNs resume_ns_ = 0;
  base::TimeNs pause_ns_ = 0;
  std::uint32_t pass_ = 0;
  std::uint32_t next_ = 1;         // the record that is looked at next
  std::uint32_t vain_rounds_ = 0;  // in a row
  bool has_failed_ = false;        // an offer of this round
  bool has_ended_ = false;         // an offer of this round had an answer
};

}  // namespace simm::moves
