#include "tests/sim/sim_socket_io.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "simm/check.h"

namespace simm::sim {

using transport::IoSocket;

bool SimSocketIo::open(IoSocket& socket) noexcept {
  const SocketNetwork::Place place = network_.find(socket.descriptor);
  if (is_dead_ || place.connection == nullptr) return false;
  auto open = std::make_shared<Open>();
  open->socket = &socket;
  open->place = place;
  open_[socket.descriptor] = std::move(open);
  return true;
}

void SimSocketIo::close(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.busy());
  const OpenPtr open = of(socket);
  open->socket = nullptr;
  open_.erase(socket.descriptor);
  std::erase(ended_, open);
  std::erase(asked_, open);
  if (!is_dead_) network_.close(open->place.connection, open->place.end);
}

void SimSocketIo::ask(const OpenPtr& open) {
  if (std::find(asked_.begin(), asked_.end(), open) == asked_.end()) asked_.push_back(open);
}

void SimSocketIo::receive(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.receiving && !socket.received);
  socket.receiving = true;
  const OpenPtr open = of(socket);
  open->receive = Phase::asked;
  ask(open);
}

void SimSocketIo::send(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.sending && !socket.sent);
  socket.sending = true;
  const OpenPtr open = of(socket);
  open->send = Phase::asked;
  ask(open);
}

// ---- the end ----

void SimSocketIo::shut_down(IoSocket& socket) noexcept {
  if (!is_dead_) network_.shut_down(of(socket)->place);
}

void SimSocketIo::cancel(IoSocket& socket) noexcept {
  const OpenPtr open = of(socket);
  if (!is_asynchronous_ || is_dead_) return end_all(open, -ECANCELED);
  const Conditions& c = network_.conditions();
  network_.loop().after(network_.dice().skewed(c.fence_low_ns, c.fence_high_ns),
                        [this, open, alive = std::weak_ptr<int>(alive_)] {
                          if (alive.expired()) return;
                          // Memory may be written to the last moment.
                          if (network_.dice().percent(50)) try_receive(open);
                          end_all(open, -ECANCELED);
                        });
}

void SimSocketIo::end_all(const OpenPtr& open, std::int32_t result) {
  end_receive(open, result);
  end_send(open, result);
}

void SimSocketIo::end_receive(const OpenPtr& open, std::int32_t result) {
  if (open->receive != Phase::asked && open->receive != Phase::armed) return;
  open->receive = Phase::ended;
  open->receive_result = result;
  if (open->send != Phase::ended) ended_.push_back(open);
  wake();
}

void SimSocketIo::end_send(const OpenPtr& open, std::int32_t result) {
  if (open->send != Phase::asked && open->send != Phase::armed) return;
  open->send = Phase::ended;
  open->send_result = result;
  if (open->receive != Phase::ended) ended_.push_back(open);
  wake();
}

void SimSocketIo::die(bool silent) {
  if (std::exchange(is_dead_, true)) return;
  for (const auto& [descriptor, open] : open_) {
    end_all(open, -ECONNRESET);
    open->receive_result = -ECONNRESET;  // what has come is read by nobody
  }
  network_.process_died(*this, silent);
}

std::uint64_t SimSocketIo::unacknowledged_bytes(const IoSocket& socket) const noexcept {
  const SocketEnd& end = of(socket)->place.own();
  return end.taken - end.acknowledged;
}

// ---- turns ----

void SimSocketIo::try_receive(const OpenPtr& open) {
  if (open->receive != Phase::armed) return;
  std::array<std::span<std::byte>, transport::kReceiveParts> parts;
  const IoSocket& socket = *open->socket;
  for (std::size_t i = 0; i < socket.receive_count; ++i) {
    const iovec& part = socket.receive_parts[i];
    parts[i] = {static_cast<std::byte*>(part.iov_base), part.iov_len};
  }
  std::int32_t result = -EFAULT;
  if (is_reachable(parts[0])) {
    result = network_.receive(open->place, std::span(parts).first(socket.receive_count));
  }
  if (result != -EAGAIN) end_receive(open, result);
}

void SimSocketIo::try_send(const OpenPtr& open) {
  if (open->send != Phase::armed) return;
  std::array<std::span<const std::byte>, transport::kSendParts> parts;
  const IoSocket& socket = *open->socket;
  for (std::size_t i = 0; i < socket.send_count; ++i) {
    const iovec& part = socket.send_parts[i];
    parts[i] = {static_cast<const std::byte*>(part.iov_base), part.iov_len};
  }
  const auto named = std::span(parts).first(socket.send_count);
  std::int32_t result = -EFAULT;
  if (std::ranges::all_of(named, is_reachable)) result = network_.send(open->place, named);
  if (result != -EAGAIN) end_send(open, result);
}

void SimSocketIo::try_both(const OpenPtr& open) {
  try_receive(open);
  try_send(open);
}

void SimSocketIo::on_news(int descriptor) {
  const auto found = open_.find(descriptor);
  if (found == open_.end()) return;
  const OpenPtr open = found->second;
  if (is_asynchronous_) return try_both(open);
  const SocketEnd& end = open->place.own();
  const bool can_receive = end.unread() > 0 || end.at_end || end.is_reset;
  const bool may_go_on = (open->receive == Phase::armed && can_receive) ||
                         (open->send == Phase::armed && network_.has_room(end));
  if (!may_go_on) return;
  ask(open);
  wake();
}

int SimSocketIo::poll() noexcept {
  for (const OpenPtr& open : std::exchange(asked_, {})) {
    if (open->receive == Phase::asked) open->receive = Phase::armed;
    if (open->send == Phase::asked) open->send = Phase::armed;
    if (is_dead_) {
      end_all(open, -ECONNRESET);
    } else {
      try_both(open);
    }
  }
  int count = 0;
  for (const OpenPtr& open : std::exchange(ended_, {})) {
    IoSocket& socket = *open->socket;
    if (open->receive == Phase::ended) {
      open->receive = Phase::idle;
      socket.receiving = false;
      socket.received = true;
      socket.receive_result = open->receive_result;
      ++count;
    }
    if (open->send == Phase::ended) {
      open->send = Phase::idle;
      socket.sending = false;
      socket.sent = true;
      socket.send_result = open->send_result;
      ++count;
    }
    transport::list_ready(socket);
  }
  return count;
}

}  // namespace simm::sim
