// RequestPool: the requests an engine has made of its operations, with tokens that are never used
// twice. An answer to an earlier use of an entry is recognised by its generation and dropped.
// Thread: the data agent of the engine.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/free_slots.h"
#include "daemon/base/intrusive_list.h"
#include "daemon/transport/transport.h"

namespace simm::engine {

struct OpenTag {};
struct PendingTag {};

// A part of an operation: pages [first, end) of it. Of those, [first, first + count) go to one
// owner in one message. A rest follows when that is answered: there is one only when the pool had
// no entry left to send it in parallel.
struct SubRequest : base::ListLink<OpenTag>, base::ListLink<PendingTag> {
  enum class Stage : std::uint8_t {
    unhashed,  // its names have no hashes yet
    unrouted,  // owners are not known yet, or no longer
    sorted,    // pages lie in the order of their owners under `epoch`
    posted,    // with the transport
  };
  std::uint32_t operation = 0;  // index in the operation pool
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t end = 0;
  std::uint32_t lookup_key_bytes = 0;  // of its message, if that moves no bytes
  Stage stage = Stage::unrouted;
  bool retried = false;          // after a collateral fence
  bool waits_for_map = false;    // its owner and we do not have the same map: nothing was done
  bool to_shared_reads = false;  // where it can
  bool of_hot_reads = false;     // only those of hot slots do
  bool of_replicas = false;      // its pages name the replicas of what their reader wants
  bool asked_other = false;      // so they have asked both copies, or will have
  std::uint32_t tail = 0;        // pages at its end that will ask the other copy
  base::TimeNs resume_ns = 0;    // when it is asked again, if no new map comes before
  base::Epoch epoch = 0;
  transport::Route route;
  transport::Request request;
  std::uint32_t generation = 0;  // grows with every post
};

class RequestPool {
public:
  explicit RequestPool(std::uint32_t capacity);

  // nullptr: no more than `keep` are free.
  SubRequest* acquire(std::uint32_t keep = 0) noexcept;
  // Must be on no list.
  void release(SubRequest& request) noexcept;

  // A token for the next post of this entry; tokens made for it before are dead from now on.
  transport::RequestToken new_token(SubRequest& request) noexcept;
  transport::RequestToken token(const SubRequest& request) const noexcept;
  // The posted request of that token, nullptr when it has been answered already.
  SubRequest* find(transport::RequestToken token) noexcept;

  std::uint32_t in_use() const noexcept { return free_.taken(); }

private:
  std::unique_ptr<SubRequest[]> requests_;
  base::FreeSlots free_;
};

}  // namespace simm::engine
