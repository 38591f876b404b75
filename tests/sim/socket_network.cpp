#include "tests/sim/socket_network.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/sim/sim_socket_io.h"

namespace simm::sim {
namespace {

// Above what any process of a system has.
constexpr int kFirstDescriptor = 1 << 30;
// A machine that has gone is not asked for ever.
constexpr base::TimeNs kSilenceNs = 3 * kSecond;

}  // namespace

ConnectionPtr SocketNetwork::connect(std::uint32_t node, SimSocketIo& node_io, std::uint32_t peer,
                                     SimSocketIo& server_io) {
  auto connection = std::make_shared<SimConnection>();
  connection->id = ++last_id_;
  connection->node = node;
  connection->peer = peer;
  for (std::size_t end = 0; end < connection->ends.size(); ++end) {
    SocketEnd& one = connection->ends[end];
    one.descriptor = kFirstDescriptor + static_cast<int>(2 * connection->id + end);
    one.io = end == SimConnection::kNode ? &node_io : &server_io;
    places_[one.descriptor] = {connection, end};
  }
  const auto cut = cuts_.find({node, peer});
  if (cut != cuts_.end()) set_cut(*connection, cut->second);
  connections_[connection->id] = connection;
  return connection;
}

SocketNetwork::Place SocketNetwork::find(int descriptor) const {
  const auto found = places_.find(descriptor);
  return found == places_.end() ? Place{} : found->second;
}

// ---- bytes ----

std::int32_t SocketNetwork::send(const Place& place,
                                 std::span<const std::span<const std::byte>> parts) {
  SocketEnd& end = place.own();
  if (end.is_reset) return -ECONNRESET;
  if (end.has_ended) return -EPIPE;
  const std::size_t waits = end.taken - end.acknowledged;
  std::size_t room = send_buffer_bytes - std::min(send_buffer_bytes, waits);
  if (room == 0) return -EAGAIN;
  Segment segment;
  for (const auto& part : parts) {
    const std::size_t bytes = std::min(part.size(), room);
    segment.bytes.insert(segment.bytes.end(), part.begin(),
                         part.begin() + static_cast<std::ptrdiff_t>(bytes));
    room -= bytes;
  }
  const auto taken = static_cast<std::int32_t>(segment.bytes.size());
  end.taken += segment.bytes.size();
  if (watcher != nullptr && place.end == SimConnection::kNode) {
    watcher->on_sent(place.connection->id, segment.bytes);
  }
  Segment forged;
  forged.is_forged = true;
  if (has_forger) {
    forged.bytes = forger_.hear(place.connection->id, place.end, segment.bytes,
                                conditions_.forge_per_mille, dice_);
  }
  if (!segment.bytes.empty() && dice_.per_mille(conditions_.corrupt_per_mille)) {
    const std::uint64_t at = dice_.between(0, segment.bytes.size() - 1);
    segment.bytes[at] ^= std::byte(1u << dice_.between(0, 7));
  }
  fly(place.connection, place.end, std::move(segment), draw_delay_ns());
  if (!forged.bytes.empty()) {
    fly(place.connection, place.end, std::move(forged), draw_delay_ns());
  }
  if (dice_.per_mille(conditions_.break_per_mille)) break_connection(place.connection);
  return taken;
}

std::int32_t SocketNetwork::receive(const Place& place,
                                    std::span<const std::span<std::byte>> parts) {
  SocketEnd& end = place.own();
  if (end.unread() == 0) {
    if (end.is_reset) return -ECONNRESET;
    if (end.at_end || end.is_shut) return 0;
    return -EAGAIN;
  }
  std::size_t copied = 0;
  for (const auto& part : parts) {
    const std::size_t bytes = std::min(part.size(), end.unread());
    if (bytes == 0) break;
    // SAFETY: bytes is no more than either side has.
    std::memcpy(part.data(), end.inbox.data() + end.read, bytes);
    end.read += bytes;
    copied += bytes;
  }
  if (end.unread() == 0) {
    end.inbox.clear();
    end.read = 0;
  }
  // What waited for room goes on.
  const std::size_t from = 1 - place.end;
  const std::deque<Segment>& flying = place.other().flying;
  if (!flying.empty() && flying.front().due_ns <= loop_.now_ns()) {
    loop_.after(0, [this, connection = place.connection, from] { pump(connection, from); });
  }
  return static_cast<std::int32_t>(copied);
}

// A packet that is lost is sent again after a while, and all that comes behind it waits.
base::TimeNs SocketNetwork::draw_delay_ns() {
  if (dice_.per_mille(conditions_.loss_per_mille)) {
    return draw_repeat_ns();
  }
  return dice_.skewed(conditions_.delay_low_ns, conditions_.delay_high_ns);
}

base::TimeNs SocketNetwork::draw_repeat_ns() {
  return dice_.between(conditions_.repeat_low_ns, conditions_.repeat_high_ns);
}

base::TimeNs SocketNetwork::draw_notice_ns() {
  return dice_.skewed(conditions_.notice_low_ns, conditions_.notice_high_ns);
}

void SocketNetwork::fly(const ConnectionPtr& connection, std::size_t from, Segment segment,
                        base::TimeNs delay_ns) {
  SocketEnd& end = connection->ends[from];
  end.last_due_ns = std::max(end.last_due_ns + 1, loop_.now_ns() + delay_ns);
  segment.due_ns = end.last_due_ns;
  end.flying.push_back(std::move(segment));
  loop_.at(end.last_due_ns, [this, connection, from] { pump(connection, from); });
}

void SocketNetwork::pump(const ConnectionPtr& connection, std::size_t from) {
  SocketEnd& out = connection->ends[from];
  SocketEnd& in = connection->ends[1 - from];
  while (!out.flying.empty() && !out.is_cut && out.flying.front().due_ns <= loop_.now_ns()) {
    if (!deliver(connection, from, out.flying.front())) break;
    out.flying.pop_front();
  }
  // The acknowledgements go the other way.
  if (!in.is_cut && !in.is_mute) out.acknowledged = out.delivered;
  if (in.io != nullptr) in.io->on_news(in.descriptor);
  if (out.io != nullptr) out.io->on_news(out.descriptor);
}

bool SocketNetwork::deliver(const ConnectionPtr& connection, std::size_t from, Segment& segment) {
  SocketEnd& out = connection->ends[from];
  SocketEnd& in = connection->ends[1 - from];
  if (segment.kind != Segment::Kind::data) {
    (segment.kind == Segment::Kind::end ? in.at_end : in.is_reset) = true;
    return true;
  }
  if (in.is_shut || in.is_mute) {
    if (!in.is_mute) send_reset(connection, 1 - from);
    return true;
  }
  const std::size_t room = receive_buffer_bytes - std::min(receive_buffer_bytes, in.unread());
  const std::size_t bytes = std::min(room, segment.bytes.size() - segment.delivered);
  const auto first = segment.bytes.begin() + static_cast<std::ptrdiff_t>(segment.delivered);
  in.inbox.insert(in.inbox.end(), first, first + static_cast<std::ptrdiff_t>(bytes));
  segment.delivered += bytes;
  if (!segment.is_forged) out.delivered += bytes;
  return segment.delivered == segment.bytes.size();
}

// ---- ends ----

void SocketNetwork::lose_tail(SocketEnd& end) {
  end.flying.resize(dice_.between(0, end.flying.size()));
  end.has_ended = true;
}

void SocketNetwork::send_reset(const ConnectionPtr& connection, std::size_t from) {
  SocketEnd& end = connection->ends[from];
  if (std::exchange(end.has_reset, true)) return;
  Segment reset;
  reset.kind = Segment::Kind::reset;
  fly(connection, from, std::move(reset), draw_notice_ns());
}

// What was sent is sent to its end, or a reset overtakes the last of it.
void SocketNetwork::shut_down(const Place& place) {
  SocketEnd& end = place.own();
  if (std::exchange(end.is_shut, true)) return;
  if (place.end == SimConnection::kServer && watcher != nullptr) {
    watcher->on_server_end(place.connection->id);
  }
  if (end.has_ended) return;
  const bool is_kept = last_words_after_ns > 0;
  const bool is_whole = is_kept || dice_.percent(50);
  if (!is_whole) lose_tail(end);
  if (is_kept) {
    hold_back(place.connection, place.end, last_words_after_ns);
  } else if (dice_.percent(conditions_.late_percent)) {
    hold_back(place.connection, place.end, draw_repeat_ns());
  }
  if (!is_whole) return send_reset(place.connection, place.end);
  end.has_ended = true;
  Segment last;
  last.kind = Segment::Kind::end;
  // Who finds it right behind what is kept looks at nothing of that.
  const base::TimeNs kept_ns = is_kept ? last_words_after_ns + 1 * kMs : 0;
  fly(place.connection, place.end, std::move(last), kept_ns + draw_notice_ns());
}

// The network lets all that it has not delivered wait, though its sender has gone.
void SocketNetwork::hold_back(const ConnectionPtr& connection, std::size_t from,
                              base::TimeNs more_ns) {
  SocketEnd& end = connection->ends[from];
  for (Segment& segment : end.flying) {
    segment.due_ns = std::max(segment.due_ns, loop_.now_ns()) + more_ns;
    end.last_due_ns = std::max(end.last_due_ns, segment.due_ns);
    loop_.at(segment.due_ns, [this, connection, from] { pump(connection, from); });
  }
}

void SocketNetwork::close(const ConnectionPtr& connection, std::size_t end) {
  shut_down({connection, end});
  connection->ends[end].io = nullptr;
  places_.erase(connection->ends[end].descriptor);
  forget_if_over(connection);
}

void SocketNetwork::forget_if_over(const ConnectionPtr& connection) {
  const bool is_over = std::all_of(connection->ends.begin(), connection->ends.end(),
                                   [](const SocketEnd& end) { return end.io == nullptr; });
  if (!is_over) return;
  connections_.erase(connection->id);
  forger_.forget(connection->id);
}

void SocketNetwork::process_died(SimSocketIo& io, bool silent) {
  std::vector<Place> places;
  for (const auto& [descriptor, place] : places_) {
    if (place.own().io == &io) places.push_back(place);
  }
  for (const Place& place : places) {
    SocketEnd& end = place.own();
    if (silent && !end.is_shut) {
      end.is_mute = true;
      lose_tail(end);
      loop_.after(kSilenceNs, [connection = place.connection, other = 1 - place.end] {
        SocketEnd& left = connection->ends[other];
        left.is_reset = true;
        if (left.io != nullptr) left.io->on_news(left.descriptor);
      });
    }
    close(place.connection, place.end);
  }
}

// ---- faults ----

void SocketNetwork::break_connection(const ConnectionPtr& connection) {
  for (std::size_t end = 0; end < connection->ends.size(); ++end) {
    SocketEnd& other = connection->ends[1 - end];
    lose_tail(other);
    if (dice_.percent(conditions_.late_percent)) hold_back(connection, 1 - end, draw_repeat_ns());
    const base::TimeNs last_ns = other.flying.empty() ? 0 : other.flying.back().due_ns;
    loop_.at(std::max(last_ns, loop_.now_ns()) + draw_notice_ns(), [connection, end] {
      SocketEnd& broken = connection->ends[end];
      broken.is_reset = true;
      if (broken.io != nullptr) broken.io->on_news(broken.descriptor);
    });
  }
}

void SocketNetwork::break_some() {
  if (connections_.empty()) return;
  const auto which = static_cast<std::ptrdiff_t>(dice_.between(0, connections_.size() - 1));
  break_connection(std::next(connections_.begin(), which)->second);
}

void SocketNetwork::set_cut(SimConnection& connection, Cut cut) {
  connection.ends[SimConnection::kNode].is_cut = cut.to_server;
  connection.ends[SimConnection::kServer].is_cut = cut.to_node;
}

void SocketNetwork::cut(std::uint32_t node, std::uint32_t peer, bool to_server, bool to_node) {
  cuts_[{node, peer}] = {to_server, to_node};
  for (const auto& [id, connection] : std::map(connections_)) {
    if (connection->node != node || connection->peer != peer) continue;
    set_cut(*connection, {to_server, to_node});
    for (std::size_t from = 0; from < connection->ends.size(); ++from) pump(connection, from);
  }
}

}  // namespace simm::sim
