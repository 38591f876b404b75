// LocalChannel: the way from one engine to one server of the same process. Its ends may be on one
// agent or on two; the code is the same. A fixed number of request slots are its credits; two
// mailboxes carry slot numbers, never data.
// Thread: requester_* members by the requester's data agent, responder_* by the server's.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "daemon/base/hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/waiter.h"
#include "daemon/transport/local/local_inbox.h"
#include "daemon/transport/local/local_request.h"

namespace simm::transport {

// Requester to responder. `use` tells the uses of a slot apart: a cancel that crosses the answer to
// an earlier use is recognised.
struct LocalCommand {
  enum class Kind : std::uint32_t { post, cancel, reset };
  Kind kind = Kind::post;
  std::uint32_t index = 0;
  std::uint32_t use = 0;
};

// Responder to requester: the slot comes back.
struct LocalEvent {
  enum class Kind : std::uint32_t { replied, aborted };
  Kind kind = Kind::replied;
  std::uint32_t index = 0;
};

// One end of a channel, as the other end reaches it.
struct LocalEnd {
  LocalInbox& inbox;      // outlives the channel
  std::uint32_t channel;  // number of the channel there
  base::Waiter* waiter;   // null where nobody sleeps (one agent, tests)

  void tell() const noexcept {
    inbox.mark(channel);
    if (waiter != nullptr) waiter->wake();
  }
};

class LocalChannel {
public:
  LocalChannel(std::uint32_t credits, LocalEnd requester, LocalEnd responder)
      : credits_(credits),
        slots_(credits),
        streams_(std::make_unique<base::PayloadDigest[]>(credits)),
        // At most: cancel and reset of a use that is over, and post, cancel and reset of the next.
        commands_(std::bit_ceil(std::size_t{credits} * 5)),
        events_(std::bit_ceil(std::size_t{credits})),
        requester_(requester),
        responder_(responder) {}

  std::uint32_t credits() const noexcept { return credits_; }
  LocalRequest& slot(std::uint32_t index) noexcept { return slots_[index]; }
  base::PayloadDigest& stream(std::uint32_t index) noexcept { return streams_[index]; }

  void requester_push(LocalCommand command) noexcept {
    SIMM_CHECK(commands_.try_push(command));  // it has room for all that can be on their way
    responder_.tell();
  }
  bool requester_pop(LocalEvent& event) noexcept { return events_.try_pop(event); }
  [[nodiscard]] std::uint64_t requester_moved() const noexcept {
    return moved_.load(std::memory_order_relaxed);
  }

  bool responder_pop(LocalCommand& command) noexcept { return commands_.try_pop(command); }
  void responder_push(LocalEvent event) noexcept {
    SIMM_CHECK(events_.try_push(event));
    requester_.tell();
  }
  void responder_note_moved() noexcept {
    moved_.store(moved_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

private:
  const std::uint32_t credits_;
  base::LazyArray<LocalRequest> slots_;
  std::unique_ptr<base::PayloadDigest[]> streams_;
  base::SpscMailbox<LocalCommand> commands_;
  base::SpscMailbox<LocalEvent> events_;
  const LocalEnd requester_;
  const LocalEnd responder_;
  // Written by the responder, and read now and then: on a line of its own.
  alignas(128) std::atomic<std::uint64_t> moved_{0};
};

}  // namespace simm::transport
