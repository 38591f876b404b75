// EventLog: what happened to a daemon and to its peers, for `simmctl events` and whatever shows a
// daemon to people. It keeps the newest kEventsMax in a ring. The numbers of events have no holes:
// what a reader came too late for, and what was left out, is a gap that is told. A kind that floods
// is cut to a burst of kEventBurst and one a second, which leaves room for the others. No key and
// no secret is ever in an event; words of clients and peers are escaped.
// Owned by the composition root.
//
// Thread: record() from any: no lock, no allocation, no waiting; but data agents count instead, and
// EventWatch (daemon/metrics/event_watch.h) makes events of that. tell() also writes the line of
// the log, so it is for any but data agents. page() from any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/counter_group.h"
#include "daemon/base/counters.h"
#include "daemon/base/event_kind.h"
#include "daemon/base/event_ring.h"
#include "daemon/base/log.h"
#include "daemon/base/log_budget.h"

namespace simm::base {

inline constexpr std::uint32_t kEventsPageMax = 256;  // in one answer
inline constexpr std::uint32_t kEventBurst = 128;     // of one kind, then one a second

struct EventCounters : CounterGroup {
  explicit EventCounters(CounterSet& set) : CounterGroup(set, "events") {}

  Counter recorded =
      counter("recorded", {"simm_events_total",
                           "Events of the daemon by what became of them; left_out: too many of one "
                           "kind at once.",
                           "result=recorded"});
  Counter left_out = counter("left_out", {"simm_events_total", {}, "result=left_out"});
};

struct Event {
  std::uint64_t sequence = 0;
  std::uint64_t wall_ns = 0;  // when it happened, by the clock of the host
  EventKind kind = EventKind::ready;
  std::uint32_t left_out = 0;  // events of this kind before it that were left out
  std::string subject;         // who or what it is about; escaped and cut, as the text is
  std::string text;
};

class EventLog {
public:
  // `log` gets the lines of tell().
  EventLog(const Clock& clock, Log& log, CounterSet& counters);
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void record(EventKind kind, std::string_view subject, std::string_view text) noexcept;

  // The event and its line of the log. The first field is the subject; the others are the text.
  // `message` is for kinds whose row has none.
  void tell(EventKind kind, std::initializer_list<LogField> fields, std::string_view message = {});

  struct Page {
    std::vector<Event> events;
    std::uint64_t missed = 0;  // behind `since`, and not here any more
    std::uint64_t next = 0;    // `since` of the next page
    bool is_last = true;       // nothing else is here now
  };
  // Events with larger numbers than `since`, oldest first, at most kEventsPageMax. A `since` that
  // was never reached is of another daemon: everything is new to its reader.
  [[nodiscard]] Page page(std::uint64_t since, std::optional<EventKind> only = {}) const;

  // Another one after each start: the numbers of two lives have nothing in common.
  [[nodiscard]] std::uint64_t life() const noexcept { return life_; }
  [[nodiscard]] std::uint64_t newest() const noexcept { return ring_.newest(); }

private:
  // Both are clean.
  void put(EventKind kind, std::string_view subject, std::string_view text) noexcept;

  const Clock& clock_;
  Log& log_;
  const std::uint64_t life_;
  EventCounters counters_;
  std::array<LogBudget, kEventKinds.size()> budgets_;
  EventRing ring_;
};

}  // namespace simm::base
