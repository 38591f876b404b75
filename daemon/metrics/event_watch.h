// EventWatch: makes events of what data agents count, so that the data path tells nothing itself:
// limits that are met, memory that is damaged, compaction that begins, a data thread that does not
// come round. Once a second it compares the counters with those of the look before. What goes on is
// one event, until it has been quiet for kQuietNs.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/event_log.h"
#include "daemon/control/deadline.h"
#include "daemon/metrics/thread_watch.h"

namespace simm::control {

class EventWatch {
public:
  static constexpr base::TimeNs kLookNs = ThreadWatch::kLookNs;
  static constexpr base::TimeNs kQuietNs = 60 * base::kNsPerSecond;
  static constexpr base::TimeNs kSlowNs = 3 * base::kNsPerSecond;  // without a turn

  // The counters of the data threads are there already; others may come later.
  EventWatch(boost::asio::io_context& io, const base::Clock& clock,
             const base::CounterSet& counters, base::EventLog& events);

  // From now on it looks by itself.
  void start();
  void look();

private:
  struct Watched {
    base::EventKind kind;
    std::string name;
    base::Counter counter;
    std::uint64_t last = 0;
    base::TimeNs grown_ns = 0;  // when it has grown last; 0: never
  };

  void find_new_counters();
  void look_at_counters(base::TimeNs now_ns);
  void look_at_threads();

  const base::Clock& clock_;
  const base::CounterSet& counters_;
  base::EventLog& events_;
  Deadline next_;
  ThreadWatch threads_;
  std::uint32_t known_counters_ = 0;
  std::vector<Watched> watched_;
  std::set<std::string> slow_;
};

}  // namespace simm::control
