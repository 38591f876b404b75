#include "daemon/metrics/event_watch.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace simm::control {
namespace {

using base::EventKind;

struct Row {
  std::string_view metric;
  EventKind kind;
};

constexpr std::array kRows = {
    Row{"simm_limit_reached_total", EventKind::limit_reached},
    Row{"simm_session_held_total", EventKind::limit_reached},
    Row{"simm_store_pins_refused_total", EventKind::limit_reached},
    Row{"simm_server_no_space_pages_total", EventKind::pool_full},
    Row{"simm_store_lost_in_lease_total", EventKind::lost_in_lease},
    Row{"simm_store_quarantined_total", EventKind::damaged},
    Row{"simm_store_moved_total", EventKind::compaction},
    Row{"simm_gpu_tier_refused_total", EventKind::gpu_tier_small},
    Row{"simm_gpu_tier_revoked_bytes_total", EventKind::gpu_tier_revoked},
    Row{"simm_engine_fences_overdue_total", EventKind::fence_overdue},
};

}  // namespace

EventWatch::EventWatch(boost::asio::io_context& io, const base::Clock& clock,
                       const base::CounterSet& counters, base::EventLog& events)
    : clock_(clock),
      counters_(counters),
      events_(events),
      next_(io),
      threads_(io, clock, counters) {
  find_new_counters();
}

void EventWatch::start() {
  next_.after(kLookNs, [this] {
    look();
    start();
  });
}

void EventWatch::look() {
  find_new_counters();
  look_at_counters(clock_.now_ns());
  threads_.look();
  look_at_threads();
}

void EventWatch::find_new_counters() {
  const auto add = [this](std::string_view name, const base::Counter& counter,
                          const base::CounterSet::Meaning& meaning) {
    const auto row = std::find_if(kRows.begin(), kRows.end(), [&meaning](const Row& each) {
      return each.metric == meaning.metric.name;
    });
    if (row == kRows.end()) return;
    watched_.push_back({row->kind, std::string(name), counter, 0, 0});
  };
  known_counters_ = counters_.each_since(known_counters_, add);
}

void EventWatch::look_at_counters(base::TimeNs now_ns) {
  for (Watched& watched : watched_) {
    const std::uint64_t value = watched.counter.value();
    if (value == watched.last) continue;
    const std::uint64_t grown = value - watched.last;
    const bool begins = watched.grown_ns == 0 || now_ns - watched.grown_ns >= kQuietNs;
    watched.last = value;
    watched.grown_ns = now_ns;
    if (!begins) continue;
    events_.tell(watched.kind, {{"counter", watched.name}, {"times", grown}, {"in_all", value}});
  }
}

void EventWatch::look_at_threads() {
  for (const ThreadWatch::Seen& seen : threads_.threads()) {
    const base::TimeNs age_ns = threads_.age_ns(seen);
    const bool is_slow = age_ns >= kSlowNs;
    if (is_slow && slow_.insert(seen.thread).second) {
      events_.tell(EventKind::thread_slow,
                   {{"thread", seen.thread}, {"no_turn_for_ms", age_ns / base::kNsPerMs}});
    }
    if (!is_slow && slow_.erase(seen.thread) > 0) {
      events_.tell(EventKind::thread_back, {{"thread", seen.thread}});
    }
  }
}

}  // namespace simm::control
