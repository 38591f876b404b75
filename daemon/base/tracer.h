// Tracer: when the stages of some operations began and ended, for somebody who looks for a while.
// Off, it costs its agent one comparison for each operation. The control thread makes a TraceRun
// for each agent and orders it. The agent notices in its next turn, records one of `one_in` of what
// it begins, and stops by itself when the time is over. A seeded hash chooses, so that no rhythm of
// the clients meets it. One thing is one record, pushed when it is over: what does not fit is
// dropped whole, and counted.
//
// Lifetime: a run is destroyed only when is_using() says no; an agent that sleeps has to be woken
// to notice.
// Thread: order() and is_using() control; TraceRun's mailbox has the agent as its sender and the
// control thread as its receiver; everything else the agent's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "daemon/base/clock.h"
#include "daemon/base/mailbox.h"

namespace simm::base {

// Stages are told apart by when they end. An operation at the node that its client asked.
enum class OperationStamp : std::uint8_t {
  begun,      // out of its ring
  admitted,   // a place for it was free
  validated,  // its descriptors and keys are copied and checked
  queued,     // its tenant's bytes had room: it is with the engine
  grouped,    // its pages are hashed and sorted by owner
  sent,       // a transport has taken its first message
  answered,   // the last answer is there
  completed,  // the client has its results
};
// A request at the shard that owns its pages.
enum class RequestStamp : std::uint8_t {
  arrived,  // off the wire, or out of a mailbox
  turn,     // its first page was begun
  stored,   // its last page was looked up, or has its room
  moved,    // no bytes are under way any more
  replied,  // the answer is on its way
};
inline constexpr std::size_t kTraceStampsMax = 8;

struct TraceRecord {
  std::uint64_t id = 0;  // travels with every message of an operation, to all daemons
  std::uint64_t tenant = 0;
  std::uint64_t bytes = 0;
  std::uint32_t pages = 0;
  std::uint32_t pages_ok = 0;
  std::int32_t status = 0;  // simm::Status: of the whole, or of the first page that was not ok
  std::uint32_t peer = 0;   // of an operation: whom its first message went to
  std::uint8_t opcode = 0;  // ipc::Opcode
  bool is_request = false;  // stamped by RequestStamp, not OperationStamp
  std::array<TimeNs, kTraceStampsMax> stamps_ns{};  // 0: that stage was left out

  template <typename Stamp>
  void stamp(Stamp at, TimeNs now_ns) noexcept {
    stamps_ns[static_cast<std::size_t>(at)] = now_ns;
  }
};

struct TraceRun {
  struct Wish {
    std::uint32_t one_in = 1;
    std::uint64_t seed = 0;
    TimeNs until_ns = 0;
    // Also what other daemons ask without tracing it themselves. Only where there are no clients.
    bool samples_requests = false;
  };
  explicit TraceRun(const Wish& wanted) : wish(wanted), records(kTraceRecordsAhead) {}

  static constexpr std::size_t kTraceRecordsAhead = 4096;  // a turn of the control thread drains it
  const Wish wish;
  SpscMailbox<TraceRecord> records;
  // Written by the agent alone.
  std::atomic<std::uint64_t> begun{0};    // of them these were looked at,
  std::atomic<std::uint64_t> sampled{0};  // these chosen,
  std::atomic<std::uint64_t> dropped{0};  // and of these, these did not fit
};

class Tracer {
public:
  // ---- agent
  [[nodiscard]] bool on() const noexcept { return run_ != nullptr; }

  // Once in a turn. Off, it is a load and two comparisons: no look at the clock.
  void take_orders(const Clock& clock) noexcept {
    TraceRun* const wanted = wanted_.load(std::memory_order_acquire);
    if (wanted == taken_ && run_ == nullptr) return;
    if (wanted != taken_) {
      taken_ = wanted;
      run_ = wanted;
      used_.store(wanted, std::memory_order_release);
    }
    if (run_ != nullptr && clock.now_ns() >= run_->wish.until_ns) run_ = nullptr;
  }

  // While on(): the id of an operation that begins, 0 when it is not chosen.
  [[nodiscard]] std::uint64_t choose() noexcept {
    const std::uint64_t mixed = mix(run_->wish.seed + count(run_->begun));
    if ((mixed >> 16) % run_->wish.one_in != 0) return 0;
    count(run_->sampled);
    // Odd: never 0. The seed is drawn by the control thread for each agent and run.
    return mix(mixed ^ run_->wish.seed) | 1;
  }
  // While on(): of a request that arrives, `id` from its requester.
  [[nodiscard]] std::uint64_t choose_request(std::uint64_t id) noexcept {
    if (!run_->wish.samples_requests) return id;
    if (id == 0) return choose();
    count(run_->sampled);
    return id;
  }

  // Something chosen is over. It may have been chosen in a run that has ended since.
  void push(const TraceRecord& record) noexcept {
    if (taken_ != nullptr && !taken_->records.try_push(record)) count(taken_->dropped);
  }

  // ---- control
  // nullptr: off. A run stays the caller's.
  void order(TraceRun* run) noexcept { wanted_.store(run, std::memory_order_release); }
  [[nodiscard]] bool is_using(const TraceRun* run) const noexcept {
    return used_.load(std::memory_order_acquire) == run;
  }

private:
  // The value before. One writer: no locked instruction.
  static std::uint64_t count(std::atomic<std::uint64_t>& counter) noexcept {
    const std::uint64_t before = counter.load(std::memory_order_relaxed);
    counter.store(before + 1, std::memory_order_relaxed);
    return before;
  }
  // The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
  static std::uint64_t mix(std::uint64_t value) noexcept {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

  TraceRun* run_ = nullptr;    // null: off, or its time is over
  TraceRun* taken_ = nullptr;  // the last order
  std::atomic<TraceRun*> wanted_{nullptr};
  alignas(kSeparate) std::atomic<TraceRun*> used_{nullptr};
};

}  // namespace simm::base
