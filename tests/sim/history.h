// History: what clients did and saw, key by key, and the promises that this has to keep.
//
// Each key is a register in every tenure of its slot (an owner, and since when it has owned the
// slot without a break): it may lose its value (a miss) but may never return a wrong one. A tenure
// may take over the value that the tenure before has left, and nothing else of another one. Which
// tenure an operation belongs to follows from the epoch of its request and the row of maps
// (MapBook). Every put writes a value of its own, so a read tells which put it saw. Checked at
// every completion:
//
//  P1  a hit is, byte for byte, one put of that key in that tenant and namespace
//  P3  inside a lease a miss of the owner has a cause; what happens to other daemons is none
//  P4  a put that its owner refused is never seen; a value that was superseded never comes back:
//      a put takes effect between its submission and the moment when its owner has forgotten the
//      last request for it (the network knows), so a later remove or replace ends it for good;
//      what a node has given up is ended by whatever that node, or its successor, asks for later,
//      though its bytes may still be on their way;
//      it is posted again only when its owner has said that it did not store it.
//      A node may keep a copy of what it has fetched. For `linger_ns` the copy may miss what other
//      nodes did. It never misses what its own node had written when the read began.
//      Where keys have one value for ever, the copy counts from when its owner was last asked.
//  P2  (a scene) a get of an object on its way to its slot's new owner, with time and room, is a
//      hit
//  P4  (objects that are kept twice) a value is not seen when a remove of it was answered that had
//      begun after both copies of the put: whichever copy is asked, and whatever has moved
//  P7  a request goes to who owns the slot under its epoch, and is served only by who has owned it
//      ever since; a hit was stored in the tenure that answers it, or moved there: then it was
//      stored in an earlier one, and nothing has superseded it in either of them or in between;
//      an object moves only from the owner before into the tenure that follows directly
// Thread: the one simulated thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/replica.h"
#include "tests/sim/map_book.h"
#include "tests/sim/network_tap.h"
#include "tests/sim/payload.h"
#include "tests/sim/report.h"

namespace simm::sim {

using KeyIndex = std::uint32_t;
using PutIndex = std::uint32_t;
inline constexpr base::TimeNs kNever = ~base::TimeNs{0};

// For reports.
inline unsigned long long ull(std::uint64_t value) {
  return value;
}

struct KeyName {
  base::TenantId tenant;
  base::NamespaceId name_space;
  std::string text;
  auto operator<=>(const KeyName&) const = default;
};

// When an operation was under way, and what the cluster had lost when it began.
struct Interval {
  base::TimeNs from_ns = 0;
  base::TimeNs to_ns = kNever;
  std::uint64_t lease_losses = 0;
};

// Who owned a slot, and since which epoch without a break.
struct Tenure {
  Serial owner = 0;
  base::Epoch since = 0;
  bool is_mirror = false;  // of replicas, where the object is in the mirrored slot
  bool operator==(const Tenure&) const = default;
};

// One read of one page, as its client saw it.
struct PageRead {
  KeyIndex key = 0;
  Interval when;
  std::uint64_t lease_ns = 0;
  std::uint64_t view_bytes = 0;     // length of the slice
  std::uint64_t object_offset = 0;  // of a ranged get
  bool ranged = false;
  bool exact_size = false;
  bool immutable = false;  // its client says that the key has one value for ever
  // Of one that its node may answer from a copy of its own: how old that copy may be, whose it is,
  // and where copies lie there. 0: the owner is asked.
  base::TimeNs linger_ns = 0;
  std::uint32_t node = 0;
  std::span<const std::byte> copies;
};

class History final : public NetworkTap {
public:
  History(const EventLoop& loop, Report& report, const MapBook& maps)
      : loop_(loop), report_(report), maps_(maps) {}

  KeyIndex key(const KeyName& name);
  [[nodiscard]] const KeyName& name(KeyIndex key) const { return keys_[key].name; }
  [[nodiscard]] std::size_t key_count() const { return keys_.size(); }

  // Causes of misses that stores count.
  std::function<std::uint64_t()> lease_losses = [] { return std::uint64_t{0}; };
  [[nodiscard]] Interval begin() const;
  bool moves = false;  // objects move on with their slots in this run
  // Keys of that namespace have one value for ever, if there is one: all their puts write it.
  std::optional<base::NamespaceId> immutable;
  [[nodiscard]] bool is_immutable(KeyIndex key) const {
    return keys_[key].name.name_space == immutable;
  }
  bool replicated = false;  // objects of that namespace are kept twice
  [[nodiscard]] bool is_replicated(KeyIndex key) const { return replicated && is_immutable(key); }

  // `source`: where its bytes lie; requests for it are known by that.
  PutIndex begin_put(KeyIndex key, bool replace, std::uint64_t length, std::uint64_t ttl_ns,
                     const std::byte* source);
  [[nodiscard]] Payload payload(PutIndex put) const;
  void end_put(PutIndex put, Status status);
  // Returns which removal of that key it is.
  std::size_t begin_remove(KeyIndex key);
  void end_remove(KeyIndex key, std::size_t removal, Status status);
  void end_get(const PageRead& read, Status status, std::span<const std::byte> bytes);
  void end_exists(const PageRead& read, Status status, std::uint64_t length);

  // NetworkTap.
  void on_posted(std::uint32_t node, const WireRequest& request) override;
  void on_asked_again(const WireRequest& request) override;
  void on_answered(const WireRequest& request,
                   std::span<const transport::PageReply> pages) override;
  void on_server_done(const WireRequest& request) override;

  [[nodiscard]] std::uint64_t hits() const { return hits_; }
  [[nodiscard]] std::uint64_t misses() const { return misses_; }
  // Hits that nodes have answered from copies of their own.
  [[nodiscard]] std::uint64_t copied() const { return copied_; }
  [[nodiscard]] std::uint64_t puts_done() const { return puts_done_; }
  // Objects that a new owner has taken, or had.
  [[nodiscard]] std::uint64_t moved() const { return moved_; }
  // And those that a new owner has refused, or had no answer to.
  [[nodiscard]] std::uint64_t not_moved() const { return not_moved_; }
  // Pages of gets that an owner has answered with a miss.
  [[nodiscard]] std::uint64_t owner_misses() const { return owner_misses_; }

private:
  static constexpr PutIndex kNoPut = ~PutIndex{0};
  static constexpr std::uint32_t kNoNode = ~std::uint32_t{0};
  struct Put {
    KeyIndex key = 0;
    bool replace = false;
    std::uint64_t length = 0;
    std::uint64_t ttl_ns = 0;
    base::TimeNs from_ns = 0;
    base::TimeNs to_ns = kNever;      // answered to its client
    bool over = false;                // its client does not wait for it any more
    base::TimeNs over_ns = 0;         // since then
    std::uint32_t node = kNoNode;     // that has posted it
    std::uint32_t requests_open = 0;  // not yet forgotten by the owner
    bool is_asked_again = false;      // by its transport, after a queue pair had failed
    base::TimeNs effect_by_ns = 0;    // end of the last request for it
    base::TimeNs first_seen_ns = kNever;
    // Of the object, and of its replica.
    struct Copy {
      std::uint32_t requests = 0;         // posted for it
      std::uint32_t requests_failed = 0;  // the owner said that it did not store it
      [[nodiscard]] bool may_be_stored() const { return requests > requests_failed; }
    };
    std::array<Copy, 2> copies;
    Tenure tenure;  // of the last request for it
  };
  // From then to then the key had no value in that tenure, or the value of that put.
  struct Superseder {
    base::TimeNs from_ns;
    base::TimeNs to_ns;
    PutIndex put;
    Tenure tenure;
    std::uint32_t node;     // that has asked; kNoNode: nobody knows
    bool is_write = false;  // else somebody has seen it
  };
  // What a server has answered for one page, when it did. The node may not have got it.
  struct Answer {
    base::TimeNs at_ns = 0;
    base::TimeNs posted_ns = 0;  // the request
    ipc::Opcode opcode = ipc::Opcode::noop;
    Status status = Status::ok;
    const std::byte* slice = nullptr;
    Tenure tenure;
    std::uint32_t node = 0;
    [[nodiscard]] bool is_like(const Answer& other) const {
      return opcode == other.opcode && status == other.status && slice == other.slice;
    }
  };
  struct Lease {
    Tenure tenure;
    Interval when;
    base::TimeNs until_ns = 0;
  };
  struct Removal {
    base::TimeNs from_ns;
    base::TimeNs to_ns;
    std::array<base::Epoch, 2> since{};  // tenures in which the two copies were removed
  };
  struct Key {
    KeyName name;
    std::vector<PutIndex> puts;
    std::vector<Superseder> superseders;
    std::vector<Removal> removals;  // unknown ones never end
    Lease lease;
    std::vector<Answer> answers;  // in the order of time
  };

  [[nodiscard]] base::TimeNs effect_by(const Put& put) const;
  [[nodiscard]] bool refused(const Put& put) const;
  [[nodiscard]] bool is_of_replicas(const WireRequest& request) const {
    return replicated && request.header.name_space == base::replica_of(*immutable);
  }
  [[nodiscard]] Put::Copy& copy_of(PutIndex put, const WireRequest& request) {
    return puts_[put].copies[is_of_replicas(request) ? 1 : 0];
  }
  [[nodiscard]] Tenure tenure_of(const WireRequest& request, std::size_t page) const;
  void check_served(const WireRequest& request, std::size_t page);
  void check_moved(const WireRequest& request, std::size_t page);
  // The last answer to that operation: since `from_ns`, of that kind, for that slice if it has one.
  [[nodiscard]] const Answer* answer_to(KeyIndex key, base::TimeNs from_ns, ipc::Opcode opcode,
                                        Status status, const std::byte* slice) const;
  // Whether there is another one like it of another tenure: then nobody knows whose it was.
  [[nodiscard]] bool ambiguous(KeyIndex key, base::TimeNs from_ns, const Answer& answer) const;
  // Whose that answer was; kNoNode: there is another one like it of another node.
  [[nodiscard]] std::uint32_t node_of(KeyIndex key, base::TimeNs from_ns,
                                      const Answer& answer) const;
  // In the tenures from the put's to the reader's.
  [[nodiscard]] const Superseder* superseder_of(PutIndex put, const Tenure& reader,
                                                base::TimeNs read_from_ns) const;
  // The same for a read of a copy: what others did may be missing in it for a while, what its own
  // node wrote may not.
  [[nodiscard]] const Superseder* superseder_of_copy(PutIndex put, const Tenure& reader,
                                                     const PageRead& read) const;
  template <typename Counts>
  [[nodiscard]] const Superseder* find_superseder(PutIndex put, const Tenure& reader,
                                                  Counts counts) const;
  [[nodiscard]] bool may_show(const Put& put, const Tenure& reader) const;
  [[nodiscard]] bool expired(const Put& put, base::TimeNs read_from_ns) const;
  PutIndex find_put(const PageRead& read, std::span<const std::byte> bytes) const;
  // Whose bytes a hit shows; kNoPut: nobody can say, or a promise was broken and that was told.
  PutIndex checked_bytes(const PageRead& read, std::span<const std::byte> bytes);
  // The same, of a put that its owner may have stored.
  PutIndex put_seen(const PageRead& read, std::span<const std::byte> bytes);
  using Sources = std::vector<const Answer*>;
  void check_only_value(const PageRead& read, std::span<const std::byte> bytes,
                        const Sources& sources, bool is_copy);
  [[nodiscard]] bool may_be_there(PutIndex put, const Tenure& reader, const PageRead& read,
                                  bool is_copy) const;
  [[nodiscard]] bool may_exist_twice(PutIndex put, const PageRead& read,
                                     const Answer& answer) const;
  [[nodiscard]] bool is_removed(PutIndex put, const Tenure& reader,
                                base::TimeNs read_from_ns) const;
  void check_bytes_of_nobody(const PageRead& read, std::span<const std::byte> bytes);
  void end_copied_get(const PageRead& read, Status status, std::span<const std::byte> bytes);
  [[nodiscard]] Sources fetches_for(const PageRead& read, Status status) const;
  void check_length(const PageRead& read, const Put& put, std::uint64_t bytes);
  void check_miss(const PageRead& read, const Answer* answer);
  [[nodiscard]] const Answer* answer_of_leased(const PageRead& read, const Answer& last) const;
  [[nodiscard]] bool loss_is_explained(const Key& key) const;
  void note_lease(const PageRead& read, Tenure tenure);
  void note_lease_of_copy(const PageRead& read, const Sources& sources);
  void note_losses();
  [[nodiscard]] std::uint64_t losses_at(base::TimeNs at_ns) const;
  [[nodiscard]] std::string describe(KeyIndex key) const;

  const EventLoop& loop_;
  Report& report_;
  const MapBook& maps_;
  std::map<KeyName, KeyIndex> index_;
  std::vector<Key> keys_;
  std::vector<Put> puts_;
  std::map<const std::byte*, PutIndex> sources_;
  std::map<std::uint64_t, std::vector<PutIndex>> put_requests_;  // by serial
  // How many leases had been lost, since when.
  std::vector<std::pair<base::TimeNs, std::uint64_t>> losses_ = {{0, 0}};
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  std::uint64_t copied_ = 0;
  std::uint64_t puts_done_ = 0;
  std::uint64_t moved_ = 0;
  std::uint64_t not_moved_ = 0;
  std::uint64_t owner_misses_ = 0;
};

}  // namespace simm::sim
