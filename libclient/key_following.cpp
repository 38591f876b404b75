#include "libclient/key_following.h"

#include <poll.h>

#include <algorithm>
#include <new>
#include <utility>

#include "ipc/futex.h"
#include "libclient/last_error.h"
#include "libclient/log.h"
#include "libclient/units.h"

namespace simm::detail {
namespace {

constexpr std::uint64_t kPauseNs = 10'000'000;        // when all is read
constexpr std::uint64_t kPresentPauseNs = 2'000'000;  // while present keys are on their way
constexpr std::uint64_t kRefusedPauseNs = 1'000'000'000;
constexpr std::uint64_t kLookNs = 5'000'000;  // another thread may read the answer off the socket

static_assert(static_cast<int>(KeyChange::damaged) == static_cast<int>(ipc::KeyNewsKind::damaged));
static_assert(static_cast<int>(KeyChange::present) == static_cast<int>(ipc::KeyNewsKind::present));
static_assert(static_cast<int>(KeyChange::unsure) == static_cast<int>(ipc::KeyNewsKind::gap));

}  // namespace

KeyFollowing::~KeyFollowing() {
  Link& link = core_->link();
  if (generation_ == 0 || link.generation() != generation_) return;
  try {
    if (asked_ != 0) link.forget_reply(asked_);
    ipc::FollowKeys end;
    end.follower = follower_;
    end.ends = true;
    // Where it does not arrive the daemon forgets the follower after some seconds.
    if (follower_ != 0) (void)link.post(end, {}, generation_, Link::Reply::unwanted);
  } catch (const std::bad_alloc&) {
    // As above.
  }
}

Expected<std::size_t> KeyFollowing::read(std::span<KeyEvent> events, std::uint32_t timeout_ms) {
  std::uint64_t now_ns = ipc::monotonic_now_ns();
  const std::uint64_t deadline_ns = now_ns + timeout_ms * kNsPerMs;
  while (handed_out_ == waiting_.size()) {
    waiting_.clear();
    handed_out_ = 0;
    if (const Outcome done = turn(now_ns, deadline_ns); !done) return done.error();
    if (!waiting_.empty() || now_ns >= deadline_ns) break;
    wait(now_ns, deadline_ns);
    now_ns = ipc::monotonic_now_ns();
  }
  const std::size_t count = std::min(events.size(), waiting_.size() - handed_out_);
  std::copy_n(waiting_.begin() + static_cast<std::ptrdiff_t>(handed_out_), count, events.begin());
  handed_out_ += count;
  return count;
}

Outcome KeyFollowing::turn(std::uint64_t now_ns, std::uint64_t deadline_ns) {
  Link& link = core_->link();
  const std::shared_ptr<Session> session = link.ready(true, deadline_ns) ? link.session() : nullptr;
  if (session == nullptr) {
    return Error{Status::unreachable,
                 "no daemon at " + link.socket_path() + " at the moment: start it again"};
  }
  if (session->generation() != generation_) {
    generation_ = session->generation();
    asked_ = follower_ = next_ask_ns_ = 0;
  }
  if ((session->welcome().extensions & ipc::kKeyNews) == 0) {
    return Error{Status::unsupported, "the daemon at " + link.socket_path() +
                                          " tells nothing of keys: it is of a release before, or "
                                          "has no pool: ask one that has"};
  }
  if (asked_ != 0) {
    const std::optional<ipc::DaemonMessage> message = link.posted_reply(asked_);
    if (!message) return Done{};
    asked_ = 0;
    const auto* const reply = std::get_if<ipc::KeyEventsReply>(&*message);
    if (reply == nullptr) return Error{Status::incompatible, "the answer is not understood"};
    if (const Outcome taken = take(*reply, now_ns); !taken) return taken;
  }
  if (now_ns < next_ask_ns_) return Done{};
  ipc::FollowKeys question;
  question.follower = follower_;
  question.name_space = name_space_;
  question.since = since_;
  question.begins = begins_ || (follower_ == 0 && options_.present);
  question.presents = question.begins ? 0 : presents_;
  asked_ = link.post(question, {}, generation_, Link::Reply::wanted);
  if (asked_ != 0) {
    begins_ = false;
  } else if (session->hung_up()) {
    link.lost(generation_);
  }  // else the channel is in use, and the next turn tries again
  return Done{};
}

Outcome KeyFollowing::take(const ipc::KeyEventsReply& reply, std::uint64_t now_ns) {
  if (reply.status == Status::not_found && follower_ != 0) {
    follower_ = 0;
    next_ask_ns_ = now_ns;
    return Done{};
  }
  if (reply.status != Status::ok) {
    next_ask_ns_ = now_ns + kRefusedPauseNs;
    return Error{reply.status, reply.reason};
  }
  const bool is_new = std::exchange(follower_, reply.follower) == 0;
  salt_ = reply.salt;
  is_salted_ = true;
  since_ = reply.next;
  presents_ = reply.presents;
  if (is_new) note_unsure();
  if (is_new) begins_ = false;  // this question has asked for them
  if (reply.missed > 0) note_unsure();
  for (const ipc::KeyNews& news : reply.news) {
    if (news.kind == ipc::KeyNewsKind::gap) {
      note_unsure();
      continue;
    }
    waiting_.push_back(
        {static_cast<KeyChange>(news.kind), {news.token.low, news.token.high}, news.bytes});
  }
  const bool is_complete = reply.is_complete && !begins_;
  if (is_complete && !is_complete_) waiting_.push_back({KeyChange::complete, {}, 0});
  is_complete_ = is_complete;
  const bool is_on_its_way = options_.present && !is_complete_;
  next_ask_ns_ = now_ns + (!reply.is_last ? 0 : is_on_its_way ? kPresentPauseNs : kPauseNs);
  return Done{};
}

void KeyFollowing::note_unsure() {
  waiting_.push_back({KeyChange::unsure, {}, 0});
  begins_ = options_.present;
  is_complete_ = false;
}

void KeyFollowing::wait(std::uint64_t now_ns, std::uint64_t deadline_ns) const {
  const bool is_asked = asked_ != 0;
  std::uint64_t until_ns = std::min(deadline_ns, now_ns + kLookNs);
  if (!is_asked) until_ns = std::min(until_ns, std::max(next_ask_ns_, now_ns));
  const auto wait_ms = static_cast<int>((until_ns - now_ns) / kNsPerMs + 1);
  const std::shared_ptr<Session> session = is_asked ? core_->link().session() : nullptr;
  if (session != nullptr) {
    session->wait_for_message(wait_ms);
  } else {
    (void)::poll(nullptr, 0, wait_ms);
  }
}

bool KeyFollowing::token(std::string_view key, KeyToken& out) const noexcept {
  if (!is_salted_) return false;
  const ipc::KeyToken token = ipc::key_token(salt_, key);
  out = {token.low, token.high};
  return true;
}

}  // namespace simm::detail

namespace simm {

KeyFollower::KeyFollower(std::unique_ptr<detail::KeyFollowing> following) noexcept
    : following_(std::move(following)) {}
KeyFollower::KeyFollower(KeyFollower&& other) noexcept = default;
KeyFollower& KeyFollower::operator=(KeyFollower&& other) noexcept = default;
KeyFollower::~KeyFollower() = default;

Expected<std::size_t> KeyFollower::read(std::span<KeyEvent> events, std::uint32_t timeout_ms) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  if (following_ == nullptr) {
    return detail::fail(Error{Status::invalid_state,
                              "this KeyFollower was moved from: use the one that it was moved to"});
  }
  if (events.empty()) {
    return detail::fail(
        Error{Status::invalid_argument, "events: none: give room for at least one"});
  }
  try {
    auto count = following_->read(events, timeout_ms);
    if (!count) return detail::fail(std::move(count).error());
    return count;
  } catch (const std::bad_alloc&) {
    return detail::fail(Error{Status::out_of_memory, "no memory left in this process"});
  }
}

bool KeyFollower::token(std::string_view key, KeyToken& out) const noexcept {
  return following_ != nullptr && following_->token(key, out);
}

Expected<KeyFollower> Client::follow_keys(const Namespace& name_space,
                                          const FollowOptions& options) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  if (core_ == nullptr) {
    return detail::fail(Error{Status::invalid_state,
                              "this Client was moved from: use the one that it was moved to"});
  }
  const detail::NamespaceRecord* const record = name_space.record();
  if (record != nullptr && record->core != core_.get()) {
    return detail::fail(
        Error{Status::invalid_argument,
              "name_space '" + record->name +
                  "': opened on another daemon's socket: open it with this Client"});
  }
  try {
    return KeyFollower(std::make_unique<detail::KeyFollowing>(
        core_, record == nullptr ? std::string() : record->name, options));
  } catch (const std::bad_alloc&) {
    return detail::fail(Error{Status::out_of_memory, "no memory left in this process"});
  }
}

}  // namespace simm
