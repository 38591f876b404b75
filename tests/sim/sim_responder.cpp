#include "tests/sim/sim_responder.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/sim/sim_requester.h"

namespace simm::sim {

SimResponder::SimResponder(Network& network, transport::Route route, const base::Clock& clock)
    : network_(network), route_(route), clock_(clock) {
  network_.listen(route_, this);
}

SimResponder::~SimResponder() {
  crash();
}

void SimResponder::crash() {
  if (crashed_) return;
  crashed_ = true;
  network_.listen(route_, nullptr);
  for (auto& [id, end] : ends_) {
    end.path->responder = nullptr;
    for (const Event& event : end.inbox) {
      if (event.wire != nullptr) network_.server_done(*event.wire);
    }
    while (!end.active.empty()) {
      const std::unique_ptr<Active> active = std::move(end.active.back());
      end.active.pop_back();
      network_.server_done(*active->wire);
      dying_ = active.get();
      for (std::uint16_t page = 0; page < active->pages.size(); ++page) {
        if (!active->moving[page]) continue;
        events_->on_moved(active->incoming, page, {Status::transfer_failed, 0});
      }
      // The last move may have made the server answer.
      if (!active->answered) events_->on_aborted(active->incoming);
    }
  }
}

void SimResponder::attach(const PathPtr& path) {
  ends_[path->id].path = path;
}

void SimResponder::on_arrival(const PathPtr& path, const std::shared_ptr<WireRequest>& wire) {
  wire->arrived = true;
  // A node that comes on a new path has fenced its old one: that one ends here before it is served.
  for (auto& [id, end] : ends_) {
    if (id < path->id && end.path->node == path->node) on_path_end(end.path);
  }
  ends_[path->id].inbox.push_back(Event{EventKind::request, wire, 0, nullptr, 0, {}});
  wake();
}

void SimResponder::on_cancel_arrival(const PathPtr& path, std::uint64_t serial) {
  ends_[path->id].inbox.push_back(Event{EventKind::cancel, nullptr, serial, nullptr, 0, {}});
  wake();
}

void SimResponder::on_path_end(const PathPtr& path) {
  if (path->server_closed) return;
  path->server_closed = true;
  wake();
}

std::size_t SimResponder::incoming_count() const noexcept {
  std::size_t count = 0;
  for (const auto& [id, end] : ends_) count += end.active.size();
  return count;
}

bool SimResponder::ready(const PathEnd& end) const {
  if (end.path->server_closed && end.inbox.empty()) {
    return end.active.empty() || std::any_of(end.active.begin(), end.active.end(),
                                             [](const auto& active) { return active->moves == 0; });
  }
  if (end.inbox.empty()) return false;
  if (end.inbox.front().kind != EventKind::request) return true;
  for (const auto& [id, older] : ends_) {
    if (id >= end.path->id) return true;
    if (older.path->node == end.path->node) return false;  // still being torn down
  }
  return true;
}

void SimResponder::drop_all() noexcept {
  for (const auto& [id, end] : ends_) network_.break_path(end.path);
}

bool SimResponder::prepare_sleep() noexcept {
  return std::none_of(ends_.begin(), ends_.end(),
                      [this](const auto& entry) { return ready(entry.second); });
}

int SimResponder::do_work() noexcept {
  int done = 0;
  for (std::size_t left = network_.dice().between(1, 16); left > 0; --left) {
    std::vector<std::uint64_t> candidates;
    for (const auto& [id, end] : ends_) {
      if (ready(end)) candidates.push_back(id);
    }
    if (candidates.empty()) return done;
    const std::uint64_t id = candidates[network_.dice().between(0, candidates.size() - 1)];
    PathEnd& end = ends_[id];
    if (!end.inbox.empty()) {
      handle_one(end);
      ++done;
    } else {
      abort_idle(end);
      if (end.active.empty()) {
        end.path->responder = nullptr;  // what still refers to the path may outlive this server
        ends_.erase(id);
      }
      ++done;
    }
  }
  wake();
  return done;
}

void SimResponder::handle_one(PathEnd& end) {
  const Event event = std::move(end.inbox.front());
  end.inbox.pop_front();
  switch (event.kind) {
    case EventKind::request:
      if (end.path->server_closed) {
        network_.server_done(*event.wire);
      } else {
        begin(end, event.wire);
      }
      return;
    case EventKind::cancel:
      for (const auto& active : end.active) {
        if (active->wire->serial != event.serial || end.path->server_closed) continue;
        active->cancelled = true;
        events_->on_cancel(active->incoming);
        return;  // it may have replied: `active` is gone
      }
      return;
    case EventKind::moved:
      --event.active->moves;
      event.active->moving[event.page] = false;
      if (event.active->incoming.header.opcode == ipc::Opcode::put) {
        event.active->wire->server_epochs[event.page] = map_epoch;
      }
      events_->on_moved(event.active->incoming, event.page, event.result);
      return;
  }
}

void SimResponder::begin(PathEnd& end, const std::shared_ptr<WireRequest>& wire) {
  auto active = std::make_unique<Active>();
  active->path = end.path;
  active->wire = wire;
  active->pages = wire->pages;
  for (transport::PageRequest& page : active->pages) {
    page.slice.region = nullptr;
    page.slice.offset = 0;
  }
  active->moving.resize(active->pages.size());
  active->incoming.responder = this;
  active->incoming.header = wire->header;
  wire->server_epochs.assign(wire->pages.size(), map_epoch);
  active->incoming.header.deadline_ns = clock_.now_ns() + wire->remaining_ns;
  active->incoming.pages = active->pages;
  active->incoming.requester_id = end.path->node + 1;
  transport::Incoming& incoming = active->incoming;
  end.active.push_back(std::move(active));
  events_->on_request(incoming);
}

void SimResponder::abort_idle(PathEnd& end) {
  for (std::size_t i = 0; i < end.active.size();) {
    if (end.active[i]->moves > 0) {
      ++i;
      continue;
    }
    // Out of the list before the upcall: the server has to forget it there.
    const std::unique_ptr<Active> active = std::move(end.active[i]);
    end.active.erase(end.active.begin() + static_cast<std::ptrdiff_t>(i));
    events_->on_aborted(active->incoming);
    network_.server_done(*active->wire);
  }
}

void SimResponder::forget(Active& active) {
  auto& list = ends_[active.path->id].active;
  list.erase(
      std::find_if(list.begin(), list.end(), [&](const auto& a) { return a.get() == &active; }));
}

SimResponder::Active* SimResponder::active_of(transport::Incoming& incoming, const char* what) {
  for (auto& [id, end] : ends_) {
    for (const auto& active : end.active) {
      if (&active->incoming == &incoming) return active.get();
    }
  }
  network_.report().violation("seam", "%s for a request that is over", what);
  return nullptr;
}

void SimResponder::pull(transport::Incoming& incoming, std::uint16_t page,
                        std::span<std::byte> extent) noexcept {
  if (crashed_) return;
  Active* active = active_of(incoming, "pull");
  if (active == nullptr) return;
  if (page >= active->pages.size() || extent.size() != active->pages[page].slice.length) {
    return network_.report().violation("seam", "pull of %zu bytes for page %u", extent.size(),
                                       page);
  }
  auto move = std::make_shared<Move>();
  move->to = extent.data();
  move->from = active->wire->addresses[page];
  move->length = extent.size();
  // Objects that move are few: of their bytes more are flipped.
  move->flip = incoming.header.is_moved &&
               network_.dice().per_mille(10 * network_.conditions.silent_flip_per_mille);
  start(*active, page, std::move(move));
}

void SimResponder::push(transport::Incoming& incoming, std::uint16_t page,
                        std::span<const std::byte> bytes, bool whole_digest) noexcept {
  if (crashed_) return;
  Active* active = active_of(incoming, "push");
  if (active == nullptr) return;
  if (page >= active->pages.size() || bytes.size() > active->pages[page].slice.length) {
    return network_.report().violation("P1", "push of %zu bytes for page %u", bytes.size(), page);
  }
  active->wire->server_epochs[page] = map_epoch;
  auto move = std::make_shared<Move>();
  move->is_push = true;
  move->whole_digest = whole_digest;
  move->flip = whole_digest && !bytes.empty() &&
               network_.dice().per_mille(network_.conditions.silent_flip_per_mille);
  move->from = bytes.data();
  move->to = active->wire->addresses[page];
  move->length = bytes.size();
  start(*active, page, std::move(move));
}

void SimResponder::start(Active& active, std::uint16_t page, std::shared_ptr<Move> move) {
  if (active.moving[page]) network_.report().violation("seam", "two moves of page %u", page);
  if (active.cancelled) network_.report().violation("seam", "a move begins after the cancel");
  active.moving[page] = true;
  ++active.moves;
  move->active = &active;
  move->path = active.path;
  move->page = page;
  next_step(move);
}

void SimResponder::next_step(const std::shared_ptr<Move>& move) {
  const Conditions& c = network_.conditions;
  network_.loop().after(network_.dice().skewed(c.step_low_ns, c.step_high_ns),
                        // A crashed server has left its moves in the event loop.
                        [this, move] {
                          if (move->path->responder != nullptr) step(move);
                        });
}

void SimResponder::step(const std::shared_ptr<Move>& move) {
  Path& path = *move->path;
  if (path.responder == nullptr) return;  // the server is gone, and `this` with it
  if (path.dead || path.server_closed) return finish(move, Status::transfer_failed);
  if (path.cut_to_server || path.cut_to_node) {
    return path.held.push_back([this, move] {
      if (move->path->responder != nullptr) step(move);
    });
  }
  const Conditions& c = network_.conditions;
  const std::size_t n = std::min<std::size_t>(
      move->length - move->copied, network_.dice().between(c.step_bytes_low, c.step_bytes_high));
  const std::byte* const remote = move->is_push ? move->to : move->from;
  if (!network_.reachable(remote + move->copied, n)) return finish(move, Status::transfer_failed);
  if (n > 0) {
    // SAFETY: copied + n <= length, which both sides were checked to have.
    std::memcpy(move->to + move->copied, move->from + move->copied, n);
    if (move->flip) move->to[move->copied] ^= std::byte{1};
    move->flip = false;
    if (move->whole_digest) {
      move->sent.insert(move->sent.end(), move->to + move->copied, move->to + move->copied + n);
    }
    move->copied += n;
    if (network_.dice().per_mille(c.corrupt_per_mille)) {
      move->to[move->copied - 1] ^= std::byte{0x80};
      return finish(move, Status::transfer_failed);
    }
  }
  if (move->copied == move->length) return finish(move, Status::ok);
  next_step(move);
}

void SimResponder::finish(const std::shared_ptr<Move>& move, Status status) {
  transport::MoveResult result;
  result.status = status;
  if (status == Status::ok && !move->is_push) result.digest = XXH3_64bits(move->to, move->length);
  if (status == Status::ok && move->whole_digest) {
    result.digest = XXH3_64bits(move->sent.data(), move->sent.size());
  }
  ends_[move->path->id].inbox.push_back(
      Event{EventKind::moved, nullptr, 0, move->active, move->page, result});
  wake();
}

void SimResponder::reply(transport::Incoming& incoming,
                         std::span<const transport::PageReply> pages) noexcept {
  if (crashed_) {
    dying_->answered = true;
    return;
  }
  Active* active = active_of(incoming, "reply");
  if (active == nullptr) return;
  if (active->moves > 0) {
    network_.report().violation("seam", "reply while %zu moves are under way", active->moves);
  }
  if (pages.size() != active->pages.size()) {
    return network_.report().violation("seam", "reply of %zu pages", pages.size());
  }
  const PathPtr path = active->path;
  const std::shared_ptr<WireRequest> wire = active->wire;
  network_.log_reply(*wire, pages);
  if (network_.tap != nullptr) network_.tap->on_answered(*wire, pages);
  network_.server_done(*wire);
  forget(*active);
  if (path->dead) return;
  network_.to_node(path, [path, serial = wire->serial,
                          copy = std::vector<transport::PageReply>(pages.begin(), pages.end())] {
    if (path->requester != nullptr) path->requester->on_answer(path, serial, copy);
  });
}

}  // namespace simm::sim
