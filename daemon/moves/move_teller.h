// MoveTeller: tells the new owners of slots that a shard has lost what it still holds of them, and
// hears what their clients wait for (server/expected_objects.h). These objects then go first.
//
// A message names some hundreds of objects, by hash alone. When all is told, the new owners are
// told that. Then a call is out to each of their shards: a request that is answered when something
// is wanted there. So the owner before dials, as it does for the objects, and the new owner only
// answers. What is told and wanted gives nobody a right: a wanted object is offered like any other
// one, and refused like any other one.
//
// An owner of an earlier release is told nothing. What can not be told is not waited for by
// anybody, and moves all the same.
//
// Owned by the SlotMover; all that it is given outlives it. No allocation after
// construction. Thread: the data agent.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/moves/mover_counters.h"
#include "daemon/moves/object_offers.h"
#include "daemon/server/server.h"
#include "daemon/store/store.h"

namespace simm::moves {

struct TellerConfig {
  std::uint32_t shard = 0;                        // of this daemon
  base::TimeNs tell_ns = 2 * base::kNsPerSecond;  // deadline of a message
  base::TimeNs pause_ns = 50 * base::kNsPerMs;    // behind one that has failed
  std::uint32_t rounds_max = 10;                  // all is told again when something has failed
  std::uint32_t call_failures_max = 10;           // in a row
  std::uint32_t records_per_turn = 256;
};

class MoveTeller final : public engine::OperationEvents {
public:
  static constexpr std::uint32_t kTellsMax = 2;   // messages under way
  static constexpr std::uint32_t kCallsMax = 64;  // shards of new owners; others are not called
  static constexpr std::uint32_t kOperationsMax = kTellsMax + kCallsMax;
  static constexpr std::uint32_t kTellPagesMax = 512;
  static constexpr std::uint32_t kWantedMax = 256;

  MoveTeller(const TellerConfig& config, const TimeToLive& time_to_live, store::Store& store,
             server::Server& server, engine::Engine& engine, const base::Clock& clock,
             MoverCounters& counters)
      : config_(config),
        time_to_live_(time_to_live),
        store_(store),
        server_(server),
        engine_(engine),
        clock_(clock),
        counters_(counters) {}

  // Slots depart: all of them are told of (once more).
  void begin() noexcept;
  // Nothing departs any more.
  void end() noexcept;
  // All was told, or can not be.
  [[nodiscard]] bool has_told() const noexcept { return phase_ != Phase::objects; }

  int do_work(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;

  // What is wanted, the first first: numbers of records, which may not depart any more.
  [[nodiscard]] std::uint32_t wanted() const noexcept { return wanted_count_; }
  [[nodiscard]] std::uint32_t first_wanted() const noexcept { return wanted_[wanted_first_]; }
  void drop_first_wanted() noexcept {
    wanted_first_ = (wanted_first_ + 1) % kWantedMax;
    --wanted_count_;
  }

  void on_complete(engine::Operation& operation) noexcept override;

private:
  enum class Phase : std::uint8_t { idle, objects, slots, calls };
  struct Call {
    transport::Route route;
    base::Slot slot = 0;  // one of that shard's
    bool is_out = false;
    std::uint32_t failures = 0;  // in a row
    base::TimeNs resume_ns = 0;
    // What was wanted and is not there any more: said with the next call.
    std::array<std::uint64_t, transport::kWantsPerCallMax> gone{};
    std::uint32_t gone_count = 0;
  };

  [[nodiscard]] engine::Operation* new_message(base::TimeNs now_ns, std::uint64_t number) noexcept;
  static void add(engine::Operation& operation, transport::MovedNote note, std::uint64_t group,
                  base::KeyHash hash, std::uint64_t digest) noexcept;
  // All messages of a phase have their answers. True: it begins anew, because one has failed.
  [[nodiscard]] bool tells_again(base::TimeNs now_ns) noexcept;
  int tell_objects(base::TimeNs now_ns) noexcept;
  int tell_slots(base::TimeNs now_ns) noexcept;
  int call_all(base::TimeNs now_ns) noexcept;
  void find_calls() noexcept;
  void send_call(Call& call, base::TimeNs now_ns) noexcept;
  void end_tell(const engine::Operation& operation) noexcept;
  void end_call(const engine::Operation& operation, Call& call) noexcept;
  void take_wanted(Call& call, std::uint64_t token) noexcept;

  const TellerConfig config_;
  const TimeToLive& time_to_live_;
  store::Store& store_;
  server::Server& server_;
  engine::Engine& engine_;
  const base::Clock& clock_;
  MoverCounters& counters_;

  Phase phase_ = Phase::idle;
  std::uint64_t begun_ = 0;  // how often: answers to messages of before mean nothing
  std::uint32_t tells_out_ = 0;
  std::uint32_t next_ = 1;  // record, or slot
  std::uint32_t rounds_ = 0;
  bool has_failed_ = false;
  base::TimeNs resume_ns_ = 0;
  std::array<Call, kCallsMax> calls_;
  std::uint32_t calls_used_ = 0;
  std::array<std::uint32_t, kWantedMax> wanted_{};  // a ring
  std::uint32_t wanted_first_ = 0;
  std::uint32_t wanted_count_ = 0;
};

}  // namespace simm::moves
