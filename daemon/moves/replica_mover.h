// ReplicaMover: makes second copies again. When a daemon with one of two copies has gone for good,
// its slots have new owners without objects. The owner of a mirrored slot then offers what it has
// of namespaces that are kept twice: each object as the replica that is missing, each replica as
// the object.
//
// An offer is a put that replaces nothing, into the new owner's tenure. The new owner takes it by
// the rules for objects that move (server/slot_arrivals.h): not if the key was removed there since.
// What was offered stays here, and is marked when it was taken or refused. Objects that were used
// go first; bytes in a second are bounded. What gets no answer is offered again, with growing
// pauses, until the end of the move window, or until some rounds were in vain. While objects come
// here, with slots that are new to this daemon, more rounds follow: these may lack copies as well.
//
// Owned by its DataAgent; store, server, engine and clock outlive it. No allocation after
// construction. Thread: that agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/lazy_array.h"
#include "daemon/base/replica.h"
#include "daemon/base/slot_departures.h"
#include "daemon/engine/engine.h"
#include "daemon/moves/object_offers.h"
#include "daemon/moves/refill_counters.h"
#include "daemon/moves/slot_mover.h"
#include "daemon/server/server.h"
#include "daemon/store/store.h"

namespace simm::moves {

class ReplicaMover final : public engine::OperationEvents {
public:
  static constexpr std::uint32_t kBatchesMax = 2;  // under way; so many fetches the engine keeps

  // `name_spaces`: those that are kept twice.
  ReplicaMover(const MoverConfig& config, base::ReplicatedNamespaces name_spaces,
               store::Store& store, server::Server& server, engine::Engine& engine,
               const base::Clock& clock, RefillCounters counters = {});

  // Slots of this shard, since when it has had them, and since when their mirrors have the owner
  // that has to be given copies. Copied; null: there are none.
  void on_map(const base::SlotDepartures* refills) noexcept;
  int do_work() noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;
  // Copies may still be under way.
  [[nodiscard]] bool is_busy() const noexcept { return is_active_ || offers_.out() > 0; }

  void on_complete(engine::Operation& operation) noexcept override;

private:
  // What was used since it was put, then the rest.
  static constexpr std::uint32_t kPasses = 2;

  [[nodiscard]] bool has_new_slots(const base::SlotDepartures& refills) const noexcept;
  void begin() noexcept;
  int send_batch(base::TimeNs now_ns) noexcept;
  int gather(engine::Operation& operation) noexcept;
  [[nodiscard]] bool is_to_go(std::uint32_t record, store::DepartingObject& object) noexcept;
  // `counts`: the answer is of the refill of now.
  void end_page(const store::ReadPin& pin, Status status, bool counts) noexcept;
  void end_round(base::TimeNs now_ns) noexcept;
  void end() noexcept;

  const MoverConfig config_;
  const base::ReplicatedNamespaces name_spaces_;
  store::Store& store_;
  server::Server& server_;
  const base::Clock& clock_;
  RefillCounters counters_;
  ObjectOffers offers_;
  OfferBudget budget_;

  const std::unique_ptr<base::SlotDepartures> refills_;  // also those that are through
  base::LazyArray<std::uint32_t> answered_;  // by record: which object of it has its answer
  bool is_active_ = false;
  base::TimeNs ends_ns_ = 0;
  base::TimeNs resume_ns_ = 0;
  base::TimeNs pause_ns_ = 0;
  std::uint32_t pass_ = 0;
  std::uint32_t next_ = 1;         // the record that is looked at next
  std::uint32_t vain_rounds_ = 0;  // in a row
  bool has_failed_ = false;        // an offer of this round
  bool has_answered_ = false;      // an offer of this round was taken or refused
  std::uint64_t arrived_ = 0;      // when this round began
};

}  // namespace simm::moves
