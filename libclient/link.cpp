#include "libclient/link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

#include "ipc/control_codec.h"
#include "ipc/futex.h"
#include "libclient/log.h"
#include "libclient/request_id.h"
#include "libclient/units.h"
#include "simm/version.h"

namespace simm::detail {
Outcome Link::open(const ClientOptions& options, std::uint32_t timeout_ms) {
  const std::lock_guard lock(control_mutex_);
  // Whoever has it open already goes on trying, whatever becomes of this wait.
  const bool has_users = open_;
  options_ = options;
  open_ = true;
  if (generation() != 0) return Done{};
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  if (!attempt_) start_attempt(now_ns);
  opening_.store(true, std::memory_order_release);
  const bool attached = drive(now_ns + timeout_ms * kNsPerMs);
  opening_.store(false, std::memory_order_release);
  if (attached) return Done{};
  open_ = has_users;
  const bool failed = attempt_->state() == Attacher::State::failed;
  Error error =
      failed ? attempt_->error()
             : Error{Status::timeout, socket_path_ + ": no session within " +
                                          std::to_string(timeout_ms) + " ms (connect_timeout_ms)"};
  if (failed || !has_users) {
    attempt_.reset();
    attempt_running_.store(false, std::memory_order_relaxed);
  }
  return error;
}

void Link::close() noexcept {
  const std::lock_guard lock(control_mutex_);
  open_ = false;
  attempt_.reset();
  attempt_running_.store(false, std::memory_order_relaxed);
  if (const std::shared_ptr<Session> current = session()) {
    try {
      if (const auto packet = ipc::encode(ipc::ClientMessage(ipc::Goodbye{}))) {
        // If it does not arrive, the hang-up says the same.
        (void)current->control().try_send(*packet);
      }
    } catch (const std::bad_alloc&) {
      // As above.
    }
    (void)drop(current->generation());
  }
}

std::shared_ptr<Session> Link::session() const noexcept {
  const std::lock_guard lock(session_mutex_);
  return session_;
}

std::string Link::why_detached() const {
  const std::lock_guard lock(session_mutex_);
  return why_detached_;
}

void Link::lost(std::uint32_t generation) noexcept {
  if (!drop(generation)) return;
  Log::note(LogLevel::warning,
            "%s: the session with the daemon is lost: calls are unreachable until it is back",
            socket_path_.c_str());
}

bool Link::drop(std::uint32_t generation) noexcept {
  std::shared_ptr<Session> gone;  // destroyed behind the lock
  const std::lock_guard lock(session_mutex_);
  std::uint32_t expected = generation;
  if (generation == 0 ||
      !generation_.compare_exchange_strong(expected, 0, std::memory_order_seq_cst)) {
    return false;
  }
  gone = std::move(session_);
  session_.reset();
  next_try_ns_.store(0, std::memory_order_relaxed);
  return true;
}

bool Link::ready_to_set_up() noexcept {
  const std::shared_ptr<Session> current = session();
  if (current != nullptr && current->hung_up(0)) lost(current->generation());
  return ready(true, ipc::kNoDeadlineNs);
}

bool Link::try_attach(std::uint64_t deadline_ns) noexcept {
  const std::uint64_t now_ns = ipc::monotonic_now_ns();
  const bool forked = forked_.load(std::memory_order_relaxed);
  if (!attempt_running_.load(std::memory_order_relaxed) && !forked &&
      now_ns < next_try_ns_.load(std::memory_order_relaxed)) {
    return false;
  }
  std::unique_lock lock(control_mutex_, std::defer_lock);
  if (forked) {
    // Siblings of the first thread wait for it: the child has never had a session.
    while (!lock.try_lock()) {
      if (generation() != 0) return true;
      if (ipc::monotonic_now_ns() >= deadline_ns) return false;
      (void)::poll(nullptr, 0, 1);
    }
  } else if (!lock.try_lock()) {
    return generation() != 0;
  }
  if (generation() != 0) return true;
  if (!open_) return false;
  try {
    const bool fresh = !attempt_;
    if (fresh) start_attempt(now_ns);
    std::uint64_t until_ns = fresh ? std::min(deadline_ns, now_ns + kGrantedWaitNs) : now_ns;
    if (forked) {
      until_ns = std::min(deadline_ns, now_ns + options_.connect_timeout_ms * kNsPerMs);
    }
    if (drive(until_ns)) return true;
    if (attempt_->state() == Attacher::State::failed) {
      const bool found = attempt_->found_daemon();
      next_try_ns_.store(now_ns + (found ? kUnansweredIntervalNs : kTryIntervalNs),
                         std::memory_order_relaxed);
      {
        const std::lock_guard text_lock(session_mutex_);
        const std::string& why = attempt_->error().context;
        // Tried again and again, and told once.
        if (why_detached_ != why) Log::note(LogLevel::warning, "no session: %s", why.c_str());
        why_detached_ = why;
      }
      attempt_.reset();
      attempt_running_.store(false, std::memory_order_relaxed);
      forked_.store(false, std::memory_order_relaxed);
    }
  } catch (const std::bad_alloc&) {
    attempt_.reset();
    attempt_running_.store(false, std::memory_order_relaxed);
  }
  return false;
}

void Link::start_attempt(std::uint64_t now_ns) {
  Attacher::Settings settings;
  settings.answer_timeout_ns = options_.connect_timeout_ms * kNsPerMs;
  settings.socket_path = socket_path_;
  settings.hello.library_version = SIMM_VERSION_STRING;
  settings.hello.client_name = options_.name;
  settings.hello.lane_count = options_.lanes;
  settings.hello.manager_address = manager_address_;
  settings.hello.extensions = ipc::kExtensions;
  settings.generation = ++last_generation_;
  settings.lanes_min = options_.async_lanes + 1;
  settings.restore = restore_;
  attempt_.emplace(std::move(settings));
  attempt_running_.store(true, std::memory_order_relaxed);
  next_try_ns_.store(now_ns + kTryIntervalNs, std::memory_order_relaxed);
}

bool Link::drive(std::uint64_t until_ns) {
  for (;;) {
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    const Attacher::State state = attempt_->step(now_ns);
    if (state == Attacher::State::done) {
      publish(attempt_->take());
      attempt_.reset();
      attempt_running_.store(false, std::memory_order_relaxed);
      return true;
    }
    if (state == Attacher::State::failed || now_ns >= until_ns) return false;
    pollfd entry{attempt_->fd(), POLLIN, 0};
    // Looks at least every 100 ms, for the attempt's own time limit.
    const std::uint64_t left_ms = std::min<std::uint64_t>((until_ns - now_ns) / kNsPerMs + 1, 100);
    (void)::poll(&entry, 1, static_cast<int>(left_ms));
  }
}

void Link::publish(std::shared_ptr<Session> session) {
  const std::uint32_t generation = session->generation();
  posted_.clear();
  {
    const std::lock_guard lock(session_mutex_);
    session_ = std::move(session);
    why_detached_.clear();
  }
  if (attaches_.fetch_add(1, std::memory_order_relaxed) != 0) {
    Log::note(LogLevel::info, "%s: another session with a daemon is there", socket_path_.c_str());
  }
  forked_.store(false, std::memory_order_relaxed);
  generation_.store(generation, std::memory_order_release);
}

Expected<ipc::DaemonMessage> Link::request(ipc::ClientMessage message, std::span<const int> fds,
                                           std::uint32_t timeout_ms, std::uint32_t& generation) {
  const std::lock_guard lock(control_mutex_);
  const std::shared_ptr<Session> current = session();
  if (current == nullptr) {
    return Error{Status::unreachable, "no daemon at " + socket_path_ +
                                          " at the moment: start it again; " + why_detached()};
  }
  generation = current->generation();
  const std::uint64_t id = next_request_id_++;
  set_request_id(message, (std::uint64_t{generation} << 32) + id);
  const Expected<std::vector<std::byte>> packet = ipc::encode(message);
  if (!packet) return packet.error();
  const ipc::SocketResult sent = current->control().send(*packet, fds, timeout_ms * kNsPerMs);
  if (sent != ipc::SocketResult::done) {
    lost(generation);
    return Error{Status::unreachable, socket_path_ + ": the daemon has gone"};
  }
  return receive_reply(*current, (std::uint64_t{generation} << 32) + id, timeout_ms);
}

// How often a wait for a reply looks whether the daemon has died.
constexpr std::uint64_t kReplyLookNs = 10'000'000;

Expected<ipc::DaemonMessage> Link::receive_reply(Session& session, std::uint64_t id,
                                                 std::uint32_t timeout_ms) {
  const std::uint64_t deadline_ns = ipc::monotonic_now_ns() + timeout_ms * kNsPerMs;
  std::array<std::byte, ipc::kControlMessageBytesMax> buffer;
  for (;;) {
    const std::uint64_t now_ns = ipc::monotonic_now_ns();
    const std::uint64_t left_ns = now_ns < deadline_ns ? deadline_ns - now_ns : 0;
    // In slices: a daemon that has died closes the socket late.
    const ipc::Received received =
        session.control().receive(buffer, std::min(left_ns, kReplyLookNs));
    const bool is_silent = received.result == ipc::SocketResult::would_block;
    if (is_silent && left_ns > kReplyLookNs && !session.hung_up()) continue;
    if (is_silent && left_ns <= kReplyLookNs) {
      lost(session.generation());
      return Error{Status::timeout, socket_path_ + ": the daemon did not answer within " +
                                        std::to_string(timeout_ms) + " ms"};
    }
    if (received.result != ipc::SocketResult::done) {
      lost(session.generation());
      return Error{Status::unreachable, socket_path_ + ": the daemon has gone"};
    }
    Expected<ipc::DaemonMessage> message =
        ipc::decode_daemon_message(std::span(buffer.data(), received.bytes));
    if (!message || std::holds_alternative<ipc::Poisoned>(*message)) {
      lost(session.generation());
      if (!message) return std::move(message).error();
      return Error{Status::poisoned,
                   socket_path_ + ": the daemon ended the session, reason " +
                       std::to_string(static_cast<int>(std::get<ipc::Poisoned>(*message).reason))};
    }
    if (request_id_of(*message) == id) return message;
    keep_if_wanted(std::move(*message));
  }
}

std::uint64_t Link::post(ipc::ClientMessage message, std::span<const int> fds,
                         std::uint32_t generation, Reply reply) {
  const std::unique_lock lock(control_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  const std::shared_ptr<Session> current = session();
  if (current == nullptr || current->generation() != generation) return 0;
  const std::uint64_t id = (std::uint64_t{generation} << 32) + next_request_id_++;
  set_request_id(message, id);
  const Expected<std::vector<std::byte>> packet = ipc::encode(message);
  // A hang-up is noticed by whoever looks for the reply.
  if (!packet || current->control().try_send(*packet, fds) != ipc::SocketResult::done) return 0;
  if (reply == Reply::wanted) posted_.emplace(id, std::nullopt);
  return id;
}

std::optional<ipc::DaemonMessage> Link::posted_reply(std::uint64_t id) {
  const std::unique_lock lock(control_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;  // whoever has it keeps the reply for us
  if (const std::shared_ptr<Session> current = session()) take_messages(*current);
  const auto found = posted_.find(id);
  if (found == posted_.end() || !found->second) return std::nullopt;
  std::optional<ipc::DaemonMessage> reply = std::move(found->second);
  posted_.erase(found);
  return reply;
}

void Link::forget_reply(std::uint64_t id) noexcept {
  const std::unique_lock lock(control_mutex_, std::try_to_lock);
  if (lock.owns_lock()) posted_.erase(id);  // else it is kept until the session ends
}

void Link::take_messages(Session& session) {
  std::array<std::byte, ipc::kControlMessageBytesMax> buffer;
  for (;;) {
    const ipc::Received received = session.control().try_receive(buffer);
    if (received.result == ipc::SocketResult::would_block) return;
    Expected<ipc::DaemonMessage> message = Error{Status::unreachable, ""};
    if (received.result == ipc::SocketResult::done) {
      message = ipc::decode_daemon_message(std::span(buffer.data(), received.bytes));
    }
    if (!message || std::holds_alternative<ipc::Poisoned>(*message)) {
      return lost(session.generation());
    }
    keep_if_wanted(std::move(*message));
  }
}

void Link::keep_if_wanted(ipc::DaemonMessage message) {
  const auto found = posted_.find(request_id_of(message));
  if (found != posted_.end()) found->second = std::move(message);
}

void Link::before_fork() noexcept {
  (void)control_mutex_.try_hold_for_fork();
  session_mutex_.hold_for_fork();
}

void Link::after_fork_parent() noexcept {
  session_mutex_.release();
  control_mutex_.release();
}

void Link::after_fork_child() noexcept {
  opening_.store(false, std::memory_order_relaxed);
  generation_.store(0, std::memory_order_relaxed);
  attempt_running_.store(false, std::memory_order_relaxed);
  next_try_ns_.store(0, std::memory_order_relaxed);
  if (control_mutex_.held_for_fork()) {
    attempt_.reset();
    posted_.clear();
  } else {
    // Another thread of the parent was in the middle of it: what it left is not even destroyed.
    new (&attempt_) std::optional<Attacher>;
    new (&posted_) decltype(posted_);
  }
  // Closed by hand: another thread of the parent may have held a reference that nobody returns.
  if (session_) session_->close_in_child();
  session_.reset();
  forked_.store(open_, std::memory_order_relaxed);
  session_mutex_.release_in_child();
  control_mutex_.release_in_child();
}

}  // namespace simm::detail
