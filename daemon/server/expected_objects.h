// ExpectedObjects: what the former owners of this shard's new slots have said that they still hold,
// and what of it clients wait for.
//
// A former owner tells what it has as soon as it has lost a slot (moves/move_teller.h). So a get of
// such an object need not be a miss. It waits, and the former owner is asked to send the object
// before all others. The object then comes as any object that moves does, and is taken or refused
// by the rules of slot_arrivals.h alone. Nothing here makes an object be taken.
//
// The former owner calls: it has a request out that is answered as soon as something is wanted. So
// the new owner dials nobody, and asks nobody but who has called.
//
// Bounds. What was not told is not asked for. What was told is asked for once, unless it is told
// again. Not more than wants_max objects are asked for at one time, and a tenant has at most four
// times as many of them as are free. A former owner that does not send what it was asked for in
// time is not asked for a while.
//
// Before a former owner has said that it has told all of a slot, nobody knows what it has. In that
// time, which is short, all reads of the slot that would be misses wait. The time is over when
// nobody has told anything for told_wait_ns: the former owner is dead, or of an earlier release.
// Owned by the Server; the arrivals and the counters outlive it. Thread: its data agent.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/base/key_hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/base/slot_ownership.h"
#include "daemon/server/server_config.h"
#include "daemon/server/server_counters.h"
#include "daemon/server/slot_arrivals.h"
#include "daemon/transport/transport.h"

namespace simm::server {

class ExpectedObjects {
public:
  ExpectedObjects(const ServerConfig& config, const SlotArrivals& arrivals,
                  ServerCounters& counters);

  // The arrivals have that map. `before`: the one in use until now.
  void use_map(const base::SlotOwnership& before, const base::SlotOwnership& now,
               base::TimeNs now_ns) noexcept;

  // Nothing to wait for, whatever the time is. Mostly that is so, and all that a read asks.
  [[nodiscard]] bool is_idle() const noexcept { return live_ == 0 && told_by_ns_ == 0; }
  // Whether there is anything to wait for.
  [[nodiscard]] bool has_any(base::TimeNs now_ns) const noexcept {
    return live_ > 0 || now_ns < told_by_ns_;
  }
  // Whether a read of that key, which is not here, waits for it. What can be asked for is then
  // asked for.
  [[nodiscard]] bool awaits(base::Slot slot, base::KeyHash key, base::TenantId tenant,
                            base::TimeNs now_ns) noexcept;
  // Nobody has to wait for that object any more: it is here, or will not come.
  void end(base::Slot slot, base::KeyHash key) noexcept {
    if (live_ > 0) end_name(arrivals_.name_of(slot, key));
  }
  // Those who wait should look again; asked once.
  [[nodiscard]] bool take_news() noexcept {
    const bool has_news = has_news_;
    has_news_ = false;
    return has_news;
  }

  // What a former owner says (transport::MovedNote). It is answered at once from `scratch`, but a
  // call stays until something is wanted, until its time is over, or until end_call().
  void take(transport::Incoming& incoming, base::TimeNs now_ns,
            std::span<transport::PageReply> scratch) noexcept;
  // The call is cancelled (it is answered) or its path is gone.
  void end_call(transport::Incoming& incoming, bool is_cancelled) noexcept;
  [[nodiscard]] std::uint32_t calls() const noexcept { return calls_; }

  int do_work(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;

private:
  static constexpr std::uint32_t kWantsMax = 256;
  static constexpr std::uint32_t kTellersMax = 1024;
  static constexpr std::uint16_t kNobody = 0xffff;
  static constexpr std::uint32_t kTenantFactor = 4;
  static constexpr base::TimeNs kToldWaitsMax = 4;  // in all, for as long as more is told

  struct Entry {
    std::uint64_t name;   // 0: free
    std::uint64_t token;  // by which its owner knows it; 0: nobody has to wait for it any more
  };
  struct Want {
    std::uint64_t name = 0;
    std::uint64_t token = 0;
    base::TenantId tenant;
    base::Slot slot = 0;
    std::uint16_t teller = kNobody;
    bool is_said = false;  // to the former owner
    base::TimeNs ends_ns = 0;
  };
  // A shard that was an owner before.
  struct Teller {
    std::uint64_t requester_id = 0;
    std::uint64_t shard = 0;
    transport::Incoming* call = nullptr;
    base::TimeNs call_ends_ns = 0;
    base::TimeNs silent_until_ns = 0;  // it is not asked
  };

  // No slot takes objects any more.
  [[nodiscard]] bool is_over() const noexcept { return arrivals_.open_slots() == 0; }
  [[nodiscard]] Entry& entry_of(std::uint64_t name) noexcept;
  void expect(std::uint64_t name, std::uint64_t token) noexcept;
  [[nodiscard]] bool ask(const Entry& entry, base::Slot slot, base::TenantId tenant,
                         base::TimeNs now_ns) noexcept;
  [[nodiscard]] bool has_room_for(base::TenantId tenant) const noexcept;
  [[nodiscard]] bool is_awaited(base::Slot slot, base::TimeNs now_ns) const noexcept {
    return awaited_[slot] && now_ns < told_by_ns_;
  }
  void end_name(std::uint64_t name) noexcept;
  void drop_want(std::uint32_t at) noexcept;
  void learn(const transport::Incoming& incoming, base::TimeNs now_ns) noexcept;
  // False: it can not be held.
  [[nodiscard]] bool hold(transport::Incoming& incoming, base::TimeNs now_ns) noexcept;
  [[nodiscard]] std::uint16_t teller_of(const transport::Incoming& incoming,
                                        const transport::PageRequest& page) noexcept;
  void answer_call(std::uint16_t teller) noexcept;
  int answer_calls(base::TimeNs now_ns) noexcept;
  int end_late_wants(base::TimeNs now_ns) noexcept;
  void forget_all() noexcept;

  const ServerConfig& config_;
  const SlotArrivals& arrivals_;
  ServerCounters& counters_;
  // By name, open addressing, half full at most.
  base::LazyArray<Entry> entries_;
  std::uint32_t entries_used_ = 0;
  std::uint32_t live_ = 0;       // of these, with a token
  base::SlotSet awaited_;        // nobody has said yet that all of them was told
  base::TimeNs opened_ns_ = 0;   // the last ones of these
  base::TimeNs told_by_ns_ = 0;  // until when reads wait for that; 0: they do not
  std::array<std::uint16_t, base::kSlotCount> teller_of_slot_;
  const std::unique_ptr<Teller[]> tellers_;
  std::uint16_t tellers_used_ = 0;
  std::uint32_t calls_ = 0;                        // that are held
  base::TimeNs call_ends_ns_ = base::kNoDeadline;  // the earliest end of one
  std::array<Want, kWantsMax> wants_;
  std::uint32_t wants_used_ = 0;
  std::uint32_t wants_unsaid_ = 0;
  bool has_news_ = false;
};

}  // namespace simm::server
