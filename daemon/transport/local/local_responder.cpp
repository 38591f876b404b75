#include "daemon/transport/local/local_responder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kFetchAheadBytes = 8192;

// A short move starts soon, and most of what it costs is the wait for its first lines. Private
// memory only: the client's is touched in one place.
void fetch_ahead(const Move& move) noexcept {
  if (move.direction != MoveDirection::out || move.length > kFetchAheadBytes) return;
  for (std::uint64_t at = 0; at < move.length; at += kLine) __builtin_prefetch(move.memory + at);
}

}  // namespace

LocalResponder::LocalResponder(const LocalResponderConfig& config, const base::Clock& clock,
                               const std::vector<LocalChannel*>& channels, LocalInbox& inbox,
                               Mover& mover)
    : config_(config), clock_(clock), mover_(mover), inbox_(inbox) {
  lanes_.reserve(channels.size());
  for (LocalChannel* channel : channels) {
    Lane lane;
    lane.channel = channel;
    lane.serving = std::make_unique<std::uint32_t[]>(channel->credits());
    lanes_.push_back(std::move(lane));
  }
}

LocalRequest& LocalResponder::request_of(Incoming& incoming) noexcept {
  // SAFETY: every Incoming that this responder hands out is a LocalRequest.
  return static_cast<LocalRequest&>(incoming);
}

int LocalResponder::do_work() noexcept {
  int work = mover_.do_work();
  marked_ |= inbox_.take();
  for (std::uint64_t left = marked_; left != 0; left &= left - 1) {
    const int taken = take_commands(static_cast<std::uint32_t>(std::countr_zero(left)));
    work += taken;
    // Fewer than it may take: there was no more.
    if (static_cast<std::uint32_t>(taken) < config_.commands_per_turn) {
      marked_ &= ~(left & -left);
    }
  }
  if (std::exchange(is_dropping_, false)) reset_all();
  return work + run_moves();
}

base::TimeNs LocalResponder::next_deadline_ns() const noexcept {
  constexpr base::TimeNs kCopyPollNs = 50'000;
  return active_first_ != nullptr ? clock_.now_ns() + kCopyPollNs : base::kNoDeadline;
}

// ---- requests ----

int LocalResponder::take_commands(std::uint32_t lane_index) noexcept {
  Lane& lane = lanes_[lane_index];
  int taken = 0;
  LocalCommand command;
  for (std::uint32_t i = 0; i < config_.commands_per_turn; ++i) {
    if (!lane.channel->responder_pop(command)) break;
    ++taken;
    if (command.kind == LocalCommand::Kind::post) {
      take_post(lane_index, command);
      continue;
    }
    // Crossed the answer: the slot may belong to the requester, or to another use, by now.
    if (lane.serving[command.index] != command.use) continue;
    LocalRequest& request = lane.channel->slot(command.index);
    command.kind == LocalCommand::Kind::cancel ? take_cancel(request) : take_reset(request);
  }
  return taken;
}

void LocalResponder::take_post(std::uint32_t lane_index, LocalCommand command) noexcept {
  Lane& lane = lanes_[lane_index];
  lane.serving[command.index] = command.use;
  LocalRequest& request = lane.channel->slot(command.index);
  request.responder = this;
  request.server_data = nullptr;
  request.lane = lane_index;
  request.index = command.index;
  request.next_active = nullptr;
  request.active = false;
  request.cancelled = false;
  request.aborting = false;
  request.move_first = 0;
  request.move_count = 0;
  request.faulted = nullptr;
  events_->on_request(request);
}

// The moves that are open end with Status::cancelled in this turn, or when the mover lets go.
void LocalResponder::take_cancel(LocalRequest& request) noexcept {
  request.cancelled = true;
  events_->on_cancel(request);
}

void LocalResponder::take_reset(LocalRequest& request) noexcept {
  request.cancelled = true;
  request.aborting = true;
  if (request.move_count == 0) abort(request);
}

void LocalResponder::reset_all() noexcept {
  for (const Lane& lane : lanes_) {
    for (std::uint32_t index = 0; index < lane.channel->credits(); ++index) {
      if (lane.serving[index] == 0 || lane.channel->slot(index).aborting) continue;
      take_reset(lane.channel->slot(index));
    }
  }
}

void LocalResponder::abort(LocalRequest& request) noexcept {
  events_->on_aborted(request);
  give_back(request, LocalEvent::Kind::aborted);
}

void LocalResponder::reply(Incoming& incoming, std::span<const PageReply> pages) noexcept {
  LocalRequest& request = request_of(incoming);
  SIMM_CHECK(request.move_count == 0 && pages.size() == request.pages.size());
  // Field by field, as they were written: a wider load would wait for all stores before it, those
  // of the payload included.
  for (std::size_t i = 0; i < pages.size(); ++i) {
    request.replies[i].status = pages[i].status;
    request.replies[i].bytes = pages[i].bytes;
  }
  request.reply_count = static_cast<std::uint16_t>(pages.size());
  give_back(request, LocalEvent::Kind::replied);
}

// The slot is the requester's from here on; it must not be touched any more.
void LocalResponder::give_back(LocalRequest& request, LocalEvent::Kind kind) noexcept {
  Lane& lane = lanes_[request.lane];
  const std::uint32_t index = request.index;
  SIMM_CHECK(lane.serving[index] != 0);
  lane.serving[index] = 0;
  lane.channel->responder_push({kind, index});
}

void LocalResponder::note_progress(Incoming& incoming) noexcept {
  lanes_[request_of(incoming).lane].channel->responder_note_moved();
}

// ---- moves ----

void LocalResponder::pull(Incoming& incoming, std::uint16_t page,
                          std::span<std::byte> extent) noexcept {
  SIMM_CHECK(page < incoming.pages.size());
  Move move;
  move.slice = incoming.pages[page].slice;
  SIMM_CHECK(extent.size() == move.slice.length);
  move.memory = extent.data();
  move.length = extent.size();
  move.page = page;
  move.direction = MoveDirection::in;
  move.digest_wanted = true;
  add_move(request_of(incoming), move);
}

void LocalResponder::push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
                          bool whole_digest) noexcept {
  SIMM_CHECK(page < incoming.pages.size());
  Move move;
  move.slice = incoming.pages[page].slice;
  SIMM_CHECK(bytes.size() <= move.slice.length);
  // SAFETY: a move out only reads its private memory.
  move.memory = const_cast<std::byte*>(bytes.data());
  move.length = bytes.size();
  move.page = page;
  move.direction = MoveDirection::out;
  move.digest_wanted = whole_digest;
  add_move(request_of(incoming), move);
}

// No turn has passed since the push: its move is the last one, and has not begun.
void LocalResponder::name_pushed(Incoming& incoming, const memory::ObjectPart& object) noexcept {
  LocalRequest& request = request_of(incoming);
  SIMM_CHECK(request.move_count > 0);
  const std::size_t last = (request.move_first + request.move_count - 1u) % request.moves.size();
  request.moves[last].object = object;
}

void LocalResponder::add_move(LocalRequest& request, const Move& move) noexcept {
  SIMM_CHECK(request.move_count < request.moves.size());
  const std::size_t at = (request.move_first + request.move_count) % request.moves.size();
  request.moves[at] = move;
  request.moves[at].stream = &lanes_[request.lane].channel->stream(request.index);
  ++request.move_count;
  fetch_ahead(move);
  if (!request.active) list_active(request);
}

void LocalResponder::list_active(LocalRequest& request) noexcept {
  request.active = true;
  request.next_active = nullptr;
  (active_first_ == nullptr ? active_first_ : active_last_->next_active) = &request;
  active_last_ = &request;
  ++active_count_;
}

LocalRequest* LocalResponder::next_active() noexcept {
  LocalRequest* request = active_first_;
  active_first_ = request->next_active;
  --active_count_;
  return request;
}

int LocalResponder::run_moves() noexcept {
  std::uint64_t budget_bytes = config_.bytes_per_turn;
  std::uint32_t idle = 0;  // requests in a row that only wait for a copy made elsewhere
  int work = 0;
  while (active_first_ != nullptr && budget_bytes > 0 && idle < active_count_) {
    LocalRequest& request = *next_active();
    const std::uint64_t before = budget_bytes;
    const bool is_open = run_request(request, budget_bytes);
    if (is_open) list_active(request);
    idle = is_open && budget_bytes == before ? idle + 1 : 0;
    if (budget_bytes != before) ++work;
  }
  return work;
}

// One request's turn. True: it has moves left.
bool LocalResponder::run_request(LocalRequest& request, std::uint64_t& budget_bytes) noexcept {
  const Lane& lane = lanes_[request.lane];
  const std::uint32_t index = request.index;
  const std::uint32_t use = lane.serving[index];
  std::uint64_t allowance = std::min(budget_bytes, config_.bytes_per_request);
  budget_bytes -= allowance;
  while (request.move_count > 0 && allowance > 0) {
    Move& move = request.moves[request.move_first];
    const std::uint64_t before = move.moved;
    const bool is_over = run_front(request);
    const std::uint64_t moved = move.moved - before;
    const std::uint64_t spent = moved + (is_over ? config_.move_cost_bytes : 0);
    allowance -= std::min(allowance, spent);
    if (spent > 0) lane.channel->responder_note_moved();
    if (is_over) {
      end_front(request);
      if (lane.serving[index] != use) break;  // answered meanwhile: no longer ours
    } else if (moved == 0) {
      break;  // made elsewhere
    }
  }
  budget_bytes += allowance;
  if (lane.serving[index] != use) return false;
  if (request.move_count > 0) {
    begin_more(request);
    return true;
  }
  request.active = false;
  if (request.aborting) abort(request);
  return false;
}

// While the first move is copied elsewhere, those who copy it get some more to do. Only then: were
// room taken by requests whose first move has none, all could wait for each other.
void LocalResponder::begin_more(LocalRequest& request) noexcept {
  if (request.cancelled || request.moves[request.move_first].ticket == 0) return;
  const std::size_t end = std::min<std::size_t>(request.move_count, config_.moves_ahead + 1u);
  for (std::size_t i = 1; i < end; ++i) {
    mover_.begin(request.moves[(request.move_first + i) % request.moves.size()]);
  }
}

// True: the request's first move is over.
bool LocalResponder::run_front(LocalRequest& request) noexcept {
  Move& move = request.moves[request.move_first];
  if (request.cancelled) {
    if (!mover_.stop(move)) return false;
    move.status = Status::cancelled;
    return true;
  }
  // Always a whole step, so that large copies stay aligned: the allowance may be overdrawn by one.
  return mover_.step(move, config_.bytes_per_request) == MoveProgress::done;
}

void LocalResponder::end_front(LocalRequest& request) noexcept {
  const Move& move = request.moves[request.move_first];
  const std::uint16_t page = move.page;
  const MoveResult result{move.status, move.digest};
  if (move.status == Status::transfer_failed && request.faulted == nullptr) {
    request.faulted = move.slice.region;
  }
  request.move_first = static_cast<std::uint16_t>((request.move_first + 1u) % request.moves.size());
  --request.move_count;
  events_->on_moved(request, page, result);
}

}  // namespace simm::transport
