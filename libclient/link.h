// Link: the process's connection to the daemon on one socket. It attaches, notices that the daemon
// has gone, attaches again on the way of later calls, and carries control requests.
//
// The generation names the session in use, 0 is "none"; it is the only thing that a data call looks
// at. Nothing on the data path waits for the control mutex: a request to a stopped daemon may hold
// it for long. Owned by Core. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "libclient/attacher.h"
#include "libclient/fork_mutex.h"
#include "libclient/session.h"
#include "simm/client.h"
#include "simm/expected.h"

namespace simm::detail {

class Link {
public:
  using Restore = std::function<std::deque<RestoreTask>(std::uint32_t generation)>;
  // The registrations are made again through `restore`.
  Link(std::string socket_path, std::string manager_address, Restore restore)
      : socket_path_(std::move(socket_path)),
        manager_address_(std::move(manager_address)),
        restore_(std::move(restore)) {}

  // Attaches and waits for it at most so long; ok at once when attached. A failure leaves a link
  // that others have open as it was.
  Outcome open(const ClientOptions& options, std::uint32_t timeout_ms);
  // Is open() waiting for a daemon, which may be stopped? Then a fork() finds nothing half done.
  [[nodiscard]] bool opening() const noexcept { return opening_.load(std::memory_order_acquire); }
  // Says goodbye. Lanes may keep the session's memory for a while.
  void close() noexcept;

  // ---- data path ----
  [[nodiscard]] std::uint32_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);
  }
  // True when there is a session. Without one, and with `reattach`, tries on its way. That takes at
  // most kGrantedWaitNs when a daemon is there again, else microseconds. A forked child that has
  // never had a session waits until the deadline.
  [[nodiscard]] bool ready(bool reattach, std::uint64_t deadline_ns) noexcept {
    return generation() != 0 || (reattach && try_attach(deadline_ns));
  }
  // The same for setting something up, on no data path: a daemon that has gone without anybody's
  // noticing is noticed first.
  [[nodiscard]] bool ready_to_set_up() noexcept;
  // The session in use, or null.
  [[nodiscard]] std::shared_ptr<Session> session() const noexcept;
  // The session of that generation is of no use any more; never waits.
  void lost(std::uint32_t generation) noexcept;

  // ---- control ----
  // Sends a request (its id is filled in) and waits for the reply to it. On a connection that broke
  // or a reply that did not come the session is given up. `generation` gets the session's.
  Expected<ipc::DaemonMessage> request(ipc::ClientMessage message, std::span<const int> fds,
                                       std::uint32_t timeout_ms, std::uint32_t& generation);

  // Sends a request without waiting: its id; 0 when the channel is in use or has no room, or the
  // session is not of that generation. A reply that is wanted is kept for posted_reply().
  enum class Reply : std::uint8_t { wanted, unwanted };
  std::uint64_t post(ipc::ClientMessage message, std::span<const int> fds, std::uint32_t generation,
                     Reply reply);
  // The reply, once, if it is there. Never waits.
  std::optional<ipc::DaemonMessage> posted_reply(std::uint64_t id);

  // Nobody will ask for that reply.
  void forget_reply(std::uint64_t id) noexcept;

  // Around fork(): the pointer's mutex is held; the control mutex too, unless a request holds it.
  void before_fork() noexcept;
  void after_fork_parent() noexcept;
  void after_fork_child() noexcept;
  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }
  [[nodiscard]] std::uint64_t attaches() const noexcept {
    return attaches_.load(std::memory_order_relaxed);
  }
  // The text of the last failed attempt.
  [[nodiscard]] std::string why_detached() const;

  static constexpr std::uint64_t kTryIntervalNs = 100'000'000;
  // After a daemon that was there did not answer or refused.
  static constexpr std::uint64_t kUnansweredIntervalNs = 1'000'000'000;
  static constexpr std::uint64_t kGrantedWaitNs = 20'000'000;

private:
  // lost(), of whoever gives it up on purpose. False: that session is not in use.
  bool drop(std::uint32_t generation) noexcept;
  bool try_attach(std::uint64_t deadline_ns) noexcept;
  void start_attempt(std::uint64_t now_ns);
  // Steps the attempt until it ends or the time has passed. True: attached.
  bool drive(std::uint64_t until_ns);
  void publish(std::shared_ptr<Session> session);
  void keep_if_wanted(ipc::DaemonMessage message);
  void take_messages(Session& session);
  Expected<ipc::DaemonMessage> receive_reply(Session& session, std::uint64_t id,
                                             std::uint32_t timeout_ms);

  const std::string socket_path_;
  const std::string manager_address_;
  const Restore restore_;

  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint64_t> next_try_ns_{0};
  std::atomic<bool> attempt_running_{false};
  std::atomic<bool> forked_{false};  // a child that has not attached yet
  std::atomic<std::uint64_t> attaches_{0};
  std::atomic<bool> opening_{false};

  ForkMutex control_mutex_;  // requests and attempts, one at a time
  bool open_ = false;
  ClientOptions options_;
  std::optional<Attacher> attempt_;
  std::uint32_t last_generation_ = 0;
  std::uint64_t next_request_id_ = 1;
  // Posted in this session and wanted: a few, at most one for each lane.
  std::map<std::uint64_t, std::optional<ipc::DaemonMessage>> posted_;

  mutable ForkMutex session_mutex_;  // held for the copy of a pointer only
  std::shared_ptr<Session> session_;
  std::string why_detached_;
};

}  // namespace simm::detail
