#include "tests/conformance/minimal/minimal_transport.h"

#include <algorithm>
#include <utility>

namespace minimal {

using simm::Status;
using namespace simm::transport;

namespace {

constexpr std::uint64_t kStepBytes = 64 * 1024;

// Upcalls may post: requests are walked by number, and only those that were there before.
template <typename Each>
int each_of(Requests& requests, Each&& each) {
  int work = 0;
  const std::size_t count = requests.size();
  for (std::size_t i = 0; i < count; ++i) work += each(*requests[i]);
  return work;
}

}  // namespace

// ---- who asks ----

Asked* MinimalRequester::find(RequestToken token) noexcept {
  for (const auto& asked : requests_) {
    if (asked->token == token) return asked.get();
  }
  return nullptr;
}

Status MinimalRequester::post(Route route, RequestToken token, const Request& request) noexcept {
  if (route != route_) return Status::unreachable;
  if (requests_.size() + request.credits_keep >= credits_) return Status::no_space;
  auto asked = std::make_unique<Asked>();
  asked->token = token;
  asked->header = request.header;
  asked->pages = request.pages;
  requests_.push_back(std::move(asked));
  return Status::ok;
}

void MinimalRequester::cancel(Route, RequestToken token) noexcept {
  if (Asked* const asked = find(token); asked != nullptr) asked->wants_cancel = true;
}

void MinimalRequester::reset(Route, RequestToken culprit) noexcept {
  if (Asked* const asked = find(culprit); asked != nullptr) {
    asked->wants_reset = asked->was_reset = true;
  }
}

int MinimalRequester::do_work() noexcept {
  int work = 0;
  for (std::size_t i = 0; i < requests_.size();) {
    if (!requests_[i]->is_over) {
      ++i;
      continue;
    }
    // Off the list before the upcall, which may post.
    const std::unique_ptr<Asked> over = std::move(requests_[i]);
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
    ++work;
    if (over->was_reset) {
      events_->on_fenced(over->token, FenceCause::reset);
    } else if (over->is_aborted) {
      events_->on_fenced(over->token, FenceCause::collateral);
    } else {
      events_->on_reply(over->token, over->replies);
    }
  }
  return work;
}

bool MinimalRequester::prepare_sleep() noexcept {
  return std::none_of(requests_.begin(), requests_.end(),
                      [](const auto& asked) { return asked->is_over; });
}

// ---- who serves ----

void MinimalResponder::order(Incoming& incoming, Move move) {
  // SAFETY: every Incoming that this responder hands out is an Asked.
  auto& asked = static_cast<Asked&>(incoming);
  move.slice = asked.pages[move.page].slice;
  move.stream = &asked.stream;
  asked.moves.push_back(move);
}

void MinimalResponder::pull(Incoming& incoming, std::uint16_t page,
                            std::span<std::byte> extent) noexcept {
  Move move;
  move.memory = extent.data();
  move.length = extent.size();
  move.page = page;
  move.digest_wanted = true;
  order(incoming, move);
}

void MinimalResponder::push(Incoming& incoming, std::uint16_t page,
                            std::span<const std::byte> bytes, bool whole_digest) noexcept {
  Move move;
  // SAFETY: a move out only reads its private memory.
  move.memory = const_cast<std::byte*>(bytes.data());
  move.length = bytes.size();
  move.page = page;
  move.direction = MoveDirection::out;
  move.digest_wanted = whole_digest;
  order(incoming, move);
}

void MinimalResponder::reply(Incoming& incoming, std::span<const PageReply> pages) noexcept {
  auto& asked = static_cast<Asked&>(incoming);
  asked.replies.assign(pages.begin(), pages.end());
  asked.is_over = true;
}

void MinimalResponder::drop_all() noexcept {
  for (const auto& asked : requests_) {
    if (asked->is_served && !asked->is_over) asked->wants_reset = true;
  }
}

int MinimalResponder::do_work() noexcept {
  const int work = each_of(requests_, [this](Asked& asked) { return take(asked); });
  return work + run_moves();
}

// What its requester wants.
int MinimalResponder::take(Asked& asked) {
  if (asked.is_over) return 0;
  int work = 0;
  if (!std::exchange(asked.is_served, true)) {
    asked.responder = this;
    events_->on_request(asked);
    ++work;
  }
  if (!asked.is_over && std::exchange(asked.wants_cancel, false)) {
    events_->on_cancel(asked);
    ++work;
  }
  return work;
}

int MinimalResponder::run_moves() noexcept {
  return each_of(requests_, [this](Asked& asked) { return move_some(asked); });
}

// One step of its first move: requests take turns.
int MinimalResponder::move_some(Asked& asked) {
  if (!asked.is_served || asked.is_over) return 0;
  if (asked.moves.empty()) {
    if (!asked.wants_reset) return 0;
    asked.is_over = asked.is_aborted = true;
    events_->on_aborted(asked);
    return 1;
  }
  Move& move = asked.moves.front();
  if (asked.wants_reset) {
    if (!mover_.stop(move)) return 0;
    move.status = Status::cancelled;
  } else if (mover_.step(move, kStepBytes) != MoveProgress::done) {
    return 1;
  }
  const Move over = move;
  asked.moves.pop_front();
  events_->on_moved(asked, over.page, {over.status, over.digest});
  return 1;
}

bool MinimalResponder::prepare_sleep() noexcept {
  return std::all_of(requests_.begin(), requests_.end(), [](const auto& asked) {
    const bool is_idle = asked->moves.empty() && !asked->wants_cancel && !asked->wants_reset;
    return asked->is_over || (asked->is_served && is_idle);
  });
}

}  // namespace minimal
