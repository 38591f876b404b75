// The shared words of a session's header that change while it lives: its state, why it was
// poisoned, and whether the daemon sleeps. One class for each side.
//
// Wake-up of the daemon: it sets daemon_sleeping and looks at every lane once more, then no more.
// It sleeps on the bell socket, or serves other sessions and looks at this word alone. The client
// publishes a submission_tail, looks at daemon_sleeping, and the one that takes it back sends one
// message. All four accesses are sequentially consistent, so at least one side sees the other. A
// message that comes too late only costs an extra look.
//
// Owned by nobody: the mapping of the header outlives both. The set-up of the other header fields
// is the attach code's.
#pragma once

#include <atomic>
#include <cstdint>

#include "ipc/bell_socket.h"
#include "ipc/layout.h"
#include "ipc/untrusted.h"
#include "simm/status.h"

namespace simm::ipc {

// SessionHeader::progress when a session begins.
inline constexpr std::uint32_t kProgressBegin = 1;

// Thread: the data agent that owns the session.
template <typename Access>
class BasicDaemonSessionWords {
public:
  explicit BasicDaemonSessionWords(SessionHeader* header) noexcept
      : state_(&header->state.word),
        poison_reason_(&header->poison_reason.word),
        sleeping_(&header->daemon_sleeping.word),
        progress_(&header->progress.word),
        traces_(&header->traces.word) {}

  // The reason becomes visible before the state.
  void publish_poisoned(PoisonReason reason) noexcept {
    poison_reason_.store_release(static_cast<std::uint32_t>(reason));
    publish_state(SessionState::poisoned);
  }
  void publish_state(SessionState state) noexcept {
    state_.store_seq_cst(static_cast<std::uint32_t>(state));
  }

  // Announce, then look at all lanes (DaemonLane::has_submissions), then sleep or withdraw.
  void announce_sleep() noexcept { sleeping_.store_seq_cst(1); }
  void withdraw_sleep() noexcept { sleeping_.store_relaxed(0); }
  // The client has taken the announcement: what it pushed before is visible.
  [[nodiscard]] bool sleep_taken() const noexcept { return sleeping_.load_acquire() == 0; }

  // Some submission got more time than its client knows of.
  void tell_progress() noexcept {
    if (++told_ == 0) ++told_;
    progress_.store_release(told_);
  }

  // Before the session is open.
  void take_traces() noexcept { traces_.store_release(1); }

private:
  BasicUntrustedWord<Access> state_;
  BasicUntrustedWord<Access> poison_reason_;
  BasicUntrustedWord<Access> sleeping_;
  BasicUntrustedWord<Access> progress_;
  BasicUntrustedWord<Access> traces_;
  std::uint32_t told_ = kProgressBegin;  // what progress_ holds
};

// Thread: any. Lives as long as any thread of the client uses the session.
template <typename Access>
class BasicClientSessionWords {
public:
  explicit BasicClientSessionWords(SessionHeader* header) noexcept
      : state_(&header->state.word),
        poison_reason_(&header->poison_reason.word),
        sleeping_(&header->daemon_sleeping.word),
        progress_(&header->progress.word),
        traces_(&header->traces.word) {}

  // After a push: sends one message if the daemon sleeps. False when the daemon's end is closed.
  bool ring_if_sleeping(const BellSocket& bell) noexcept { return !take_sleep() || bell.ring(); }
  // True: the daemon sleeps, and the caller took its announcement and owes it a message.
  [[nodiscard]] bool take_sleep() noexcept {
    return sleeping_.load_seq_cst() != 0 && sleeping_.exchange_seq_cst(0) != 0;
  }

  // Whether submissions in flight can still complete. ok: open or draining. poisoned.
  // invalid_state: closed, or not open yet. unreachable: mark_lost() was called.
  [[nodiscard]] Status usable() const noexcept {
    if (lost_.load(std::memory_order_seq_cst)) return Status::unreachable;
    switch (static_cast<SessionState>(state_.load_seq_cst())) {
      case SessionState::open:
      case SessionState::draining:
        return Status::ok;
      case SessionState::poisoned:
        return Status::poisoned;
      case SessionState::starting:
      case SessionState::closed:
        break;
    }
    return Status::invalid_state;
  }
  [[nodiscard]] SessionState state() const noexcept {
    return static_cast<SessionState>(state_.load_acquire());
  }
  [[nodiscard]] PoisonReason poison_reason() const noexcept {
    return static_cast<PoisonReason>(poison_reason_.load_acquire());
  }

  // 0: the daemon is older than Submission::patience_ns. Else it changes when some submission of
  // the session was given more time.
  [[nodiscard]] std::uint32_t progress() const noexcept { return progress_.load_acquire(); }

  // Whether the daemon takes kFlagTraced.
  [[nodiscard]] bool takes_traces() const noexcept { return traces_.load_acquire() != 0; }

  // The socket to the daemon hung up. The caller then interrupts every lane
  // (ClientLane::interrupt).
  void mark_lost() noexcept { lost_.store(true, std::memory_order_seq_cst); }

private:
  BasicUntrustedWord<Access> state_;
  BasicUntrustedWord<Access> poison_reason_;
  BasicUntrustedWord<Access> sleeping_;
  BasicUntrustedWord<Access> progress_;
  BasicUntrustedWord<Access> traces_;
  std::atomic<bool> lost_{false};
};

using DaemonSessionWords = BasicDaemonSessionWords<DirectAccess>;
using ClientSessionWords = BasicClientSessionWords<DirectAccess>;

}  // namespace simm::ipc
