// KeyFeed: what becomes of the objects of this daemon, for those who follow it: `simmctl events
// --keys`, and publishers to routers. Keys are hashes. While nobody follows, no shard tells, and
// nothing is kept. Events of all shards are in one ring with one numbering; the events of one key
// are in their order. Who reads too slowly, or comes too late, is told how many are missing, and
// slows nobody. Who does not read for kKeyPatienceNs is forgotten.
//
// A follower may ask for the keys that are there. Shards tell them between the events of their
// streams, a page at a time and one page of one follower in kCollectNs: so followers who ask all
// the time take a bounded share of a shard's time. Present keys are kept for their follower alone,
// until it has read them.
//
// Sessions of clients follow the same stream by another door (KeyFollowers): keys of their own
// tenant alone, in one namespace, by tokens in place of hashes. The hash of a key is a secret of
// the cluster, by which a client could look for keys that meet in one place.
//
// Owned by the composition root; taps and tenants outlive it. Thread: control.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/attach/key_followers.h"
#include "daemon/attach/tenant_rules.h"
#include "daemon/base/choices.h"
#include "daemon/base/clock.h"
#include "daemon/base/counter_group.h"
#include "daemon/base/key_event_tap.h"
#include "daemon/base/limits.h"
#include "daemon/base/random.h"
#include "daemon/base/waiter.h"
#include "daemon/control/deadline.h"
#include "daemon/control/environment.h"
#include "simm/expected.h"

namespace simm::control {

struct KeyFeedCounters : base::CounterGroup {
  explicit KeyFeedCounters(base::CounterSet& set) : CounterGroup(set, "key_events") {}

  base::Counter published = counter(
      "published", {"simm_key_events_total",
                    "Events of keys while somebody followed them, by what became of them; lost: "
                    "the shard's ring was full, and followers were told of a gap.",
                    "result=published"});
  base::Counter lost = counter("lost", {"simm_key_events_total", {}, "result=lost"});
  base::Counter gaps =
      counter("gaps", {"simm_key_event_gaps_total",
                       "Gaps that followers of key events were told of; shard: its ring was full; "
                       "follower: it read too slowly.",
                       "where=shard"});
  base::Counter overruns = counter("overruns", {"simm_key_event_gaps_total", {}, "where=follower"});
  base::Counter subscribers =
      counter("subscribers", {"simm_key_event_subscribers", "Followers of key events now."});
};

// A shard, and whom to wake when it has something to do. No waiter: it does not sleep.
struct KeyShard {
  base::KeyEventTap* tap = nullptr;
  base::Waiter* waiter = nullptr;
};

class KeyFeed final : public KeyFollowers {
public:
  static constexpr std::uint32_t kKeyEventsKept = 65'536;
  static constexpr std::uint32_t kKeyEventsPageMax = 2048;  // in one answer
  static constexpr base::TimeNs kKeyPatienceNs = 10 * base::kNsPerSecond;

  struct Setup {
    boost::asio::io_context& io;
    const base::Clock& clock;
    base::Random& random;
    base::CounterSet& counters;
    base::LimitCounters& limits;
    const TenantRules& tenants;
    base::KeyEventsMode mode = base::KeyEventsMode::off;
    std::vector<KeyShard> shards;
  };
  explicit KeyFeed(Setup setup);
  // Null: there are no shards.
  static std::unique_ptr<KeyFeed> make(Environment& environment, base::Random& random,
                                       const TenantRules& tenants, std::vector<KeyShard> shards);
  KeyFeed(const KeyFeed&) = delete;
  KeyFeed& operator=(const KeyFeed&) = delete;

  // `argument`, an object of JSON: {} subscribes, with "tenant" and "namespace" by name to these
  // alone; {"subscriber": S, "since": N, "presents": P} reads on behind the event N and the present
  // key P; with "begin": true the present keys are told from the first one on; with "end": true it
  // leaves.
  // The answer: an object of JSON in one line {life, subscriber, next, presents, missed, is_last,
  // is_complete, tenants, name_spaces}, then a line for each event: number, nanoseconds since 1970,
  // kind, hash of the key, bytes, tenant, namespace. A line of the kind "gap" has the number of
  // lost events as bytes, one of the kind "present" the number of the event before it. `missed`:
  // events that were overwritten before this page. Then, and behind a gap, present keys are worth
  // nothing any more: begin them anew. `is_complete`: all of them were told. invalid_state:
  // events.keys is off. not_found: it was forgotten. out_of_memory: there are kKeySubscribersMax,
  // or memory is refused.
  [[nodiscard]] Expected<std::string> answer(std::string_view argument);

  // KeyFollowers. `missed` and gaps as above.
  [[nodiscard]] ipc::KeyEventsReply follow(std::uint64_t session_id, const Tenant& tenant,
                                           const ipc::FollowKeys& question) override;
  void leave_all(std::uint64_t session_id) noexcept override;

private:
  // Of a follower: the keys that are there.
  enum class Presents : std::uint8_t { unwanted, wanted, ordered, complete };
  struct Present {
    std::uint64_t behind = 0;  // the last event that was told before it
    std::uint64_t wall_ns = 0;
    base::KeyEvent event;
  };
  struct Subscriber {
    std::uint64_t id = 0;
    std::uint64_t session_id = 0;  // 0: by the admin socket
    base::TimeNs heard_ns = 0;
    std::optional<base::TenantId> tenant;
    std::optional<base::NamespaceId> name_space;
    std::string name_space_name;

    Presents state = Presents::unwanted;
    std::size_t shard = 0;        // of the next walk
    std::uint32_t record = 0;     // the same
    std::uint64_t taken = 0;      // present keys that it has read
    std::deque<Present> waiting;  // and those that it has not
    [[nodiscard]] bool may_see(const base::KeyEvent& event) const noexcept {
      return (!tenant || *tenant == event.tenant) &&
             (!name_space || *name_space == event.name_space);
    }
  };
  struct Entry {
    base::KeyEvent event;  // `sequence` is not used; of a gap `bytes` is the count
    std::uint64_t wall_ns = 0;
  };
  // Where a follower is, and where it is behind one page.
  struct Place {
    std::uint64_t since = 0;
    std::uint64_t presents = 0;
    std::uint64_t missed = 0;
    bool is_last = true;
    bool is_complete = false;
  };
  // What both doors ask for.
  struct Request {
    std::uint64_t subscriber = 0;  // 0: a new one
    std::uint64_t session_id = 0;  // 0: by the admin socket
    bool begins = false;           // to hear the keys that are present, from the first one
    bool ends = false;
  };
  struct Question;

  [[nodiscard]] static Expected<Question> read(std::string_view argument);
  [[nodiscard]] Expected<Subscriber> subscriber_of(const Question& question) const;
  [[nodiscard]] Outcome check_mode() const;
  // Null: it is over.
  [[nodiscard]] Subscriber* find(std::uint64_t id, std::uint64_t session_id) noexcept;
  // The follower that asks: the one that `newcomer` makes, or a known one; null: it has left.
  // `place` becomes that behind which it reads.
  [[nodiscard]] Expected<Subscriber*> attend(const Request& request, Place& place,
                                             const std::function<Expected<Subscriber>()>& newcomer);
  [[nodiscard]] Expected<Subscriber*> add(Subscriber made);
  static void begin_presents(Subscriber& subscriber) noexcept;
  // Tells `use` of the next ones, at most `most`: with the number of the event, and its wall time.
  Place read_on(
      Subscriber& subscriber, Place place, std::uint32_t most,
      const std::function<void(std::uint64_t, std::uint64_t, const base::KeyEvent&)>& use);
  [[nodiscard]] std::string page(Subscriber& subscriber, Place place);
  void leave(const std::function<bool(const Subscriber&)>& is_one);
  void listen();
  void look();
  void collect();
  void hear(const base::KeyEvent& event, std::uint64_t wall_ns);
  void hear_walk(const base::KeyEvent& event, std::uint64_t wall_ns);
  void order_next_walk();
  void add(const base::KeyEvent& event, std::uint64_t wall_ns);
  void close_if_alone();

  const Setup setup_;
  const std::uint64_t life_;
  const std::uint64_t salt_;  // of tokens
  KeyFeedCounters counters_;
  std::vector<std::unique_ptr<Subscriber>> subscribers_;
  std::size_t next_walker_ = 0;    // of subscribers_: whose walk may come next
  std::uint32_t walk_number_ = 0;  // of the last walk
  std::uint64_t walker_ = 0;       // whose walk is under way; 0: nobody's
  std::unique_ptr<std::array<Entry, kKeyEventsKept>> entries_;  // null: nobody follows
  std::uint64_t newest_ = 0;                                    // number of the last entry
  std::uint64_t oldest_ = 1;  // the first one that this ring has ever had
  Deadline timer_;
};

}  // namespace simm::control
