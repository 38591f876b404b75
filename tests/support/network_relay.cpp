#include "tests/support/network_relay.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace simm::test_support {
namespace {

using Time = RelayedStream::Time;

sockaddr_in relay_address_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  REQUIRE(colon != std::string::npos);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  REQUIRE(::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) == 1);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)));
  return address;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Until `due`, at most an hour; poll() returns earlier for anything else.
timespec relay_wait_until(Time due) {
  const auto left = due == Time::max() ? std::chrono::hours(1) : due - Time::clock::now();
  const std::int64_t ns = std::max<std::int64_t>(0, std::chrono::nanoseconds(left).count());
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

}  // namespace

NetworkRelay::NetworkRelay(const std::string& server, std::uint64_t seed,
                           const std::string& network)
    : server_(relay_address_of(server)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      seed_(seed) {
  if (network.empty()) {
    listen(relay_address_of("127.0.0.1:0"));
  } else {
    // A thread that has gone there does not come back.
    std::thread([&] {
      const ipc::UniqueFd there(::open(network.c_str(), O_RDONLY | O_CLOEXEC));
      REQUIRE(::setns(there.get(), CLONE_NEWNET) == 0);
      listen(server_);
    }).join();
  }
  thread_ = std::thread([this] { run(); });
}

void NetworkRelay::listen(const sockaddr_in& wanted) {
  listener_ = ipc::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = wanted;
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener_.get(), generic, bytes) == 0);
  REQUIRE(::listen(listener_.get(), 64) == 0);
  REQUIRE(::getsockname(listener_.get(), generic, &bytes) == 0);
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

NetworkRelay::~NetworkRelay() {
  wish([](Wishes& wishes) { wishes.is_stopped = true; });
  thread_.join();
}

// ---- what the test says ----

template <typename Change>
void NetworkRelay::wish(Change&& change) {
  std::unique_lock<std::mutex> guard(mutex_);
  change(wishes_);
  const std::uint64_t number = ++wishes_.number;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(bell_.get(), &one, sizeof one);
  obeyed_.wait(guard, [&] { return obeyed_number_ >= number; });
}

void NetworkRelay::make(RelayWay way, const RelayTrouble& trouble) {
  wish([&](Wishes& wishes) { wishes.troubles[static_cast<std::size_t>(way)] = trouble; });
}

void NetworkRelay::make_both(const RelayTrouble& trouble) {
  wish([&](Wishes& wishes) { wishes.troubles = {trouble, trouble}; });
}

void NetworkRelay::keep(RelayWay way) {
  wish([&](Wishes& wishes) { ++wishes.keeps[static_cast<std::size_t>(way)]; });
}

void NetworkRelay::conceal_ends(bool conceals) {
  wish([&](Wishes& wishes) { wishes.conceals = conceals; });
}

void NetworkRelay::cut() {
  wish([](Wishes& wishes) { wishes.is_cut = true; });
}

void NetworkRelay::reset() {
  wish([](Wishes& wishes) { ++wishes.resets; });
}

void NetworkRelay::mend() {
  wish([](Wishes& wishes) {
    wishes.troubles = {};
    wishes.conceals = false;
    wishes.is_cut = false;
    ++wishes.mends;
  });
}

// ---- the thread ----

void NetworkRelay::run() {
  Wishes wishes;
  std::vector<pollfd> polled;
  while (true) {
    obey(wishes);
    if (wishes.is_stopped) return;
    polled = {{bell_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    Time due = Time::max();
    for (const Connection& one : connections_) due = std::min(due, watch(wishes, one, polled));
    const timespec wait = relay_wait_until(due);
    ::ppoll(polled.data(), polled.size(), &wait, nullptr);
    std::uint64_t rung = 0;
    [[maybe_unused]] const ssize_t heard = ::read(bell_.get(), &rung, sizeof rung);
    std::size_t at = 2;
    for (Connection& one : connections_) {
      serve(wishes, one, &polled[at]);
      at += 2;
    }
    connections_.remove_if([](const Connection& one) { return one.is_over; });
    if (polled[1].revents != 0) accept();
    std::uint64_t kept_bytes = 0;
    for (const Connection& one : connections_) {
      for (const std::size_t side : {0U, 1U}) {
        if (one.is_kept[side]) kept_bytes += one.streams[side].held_bytes();
      }
    }
    kept_bytes_ = kept_bytes;
    open_ = connections_.size();
  }
}

void NetworkRelay::obey(Wishes& wishes) {
  const std::lock_guard<std::mutex> guard(mutex_);
  wishes = wishes_;
  for (Connection& one : connections_) {
    const bool is_revealed = one.is_concealed && !wishes.conceals;
    mark_kept(wishes, one);
    if (wishes.is_cut || wishes.resets != resets_ || is_revealed) reset(one);
  }
  connections_.remove_if([](const Connection& one) { return one.is_over; });
  open_ = connections_.size();
  resets_ = wishes.resets;
  keeps_ = wishes.keeps;
  mends_ = wishes.mends;
  obeyed_number_ = wishes.number;
  obeyed_.notify_all();
}

void NetworkRelay::mark_kept(const Wishes& wishes, Connection& connection) const {
  if (wishes.mends != mends_) connection.is_kept = {false, false};
  for (const std::size_t side : {0U, 1U}) {
    if (wishes.keeps[side] != keeps_[side])
      connection.is_kept[side] = connection.was_kept[side] = true;
  }
}

void NetworkRelay::accept() {
  ipc::UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!caller) return;
  ipc::UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  send_at_once(caller.get());
  send_at_once(server.get());
  // What becomes of it, poll() tells.
  (void)::connect(server.get(), reinterpret_cast<const sockaddr*>(&server_), sizeof server_);
  connections_.emplace_back(seed_ + ++accepted_);
  connections_.back().sockets = {std::move(server), std::move(caller)};
}

// A socket that nothing is wanted of is not watched: the kernel would tell of its end again and
// again.
Time NetworkRelay::watch(const Wishes& wishes, const Connection& connection,
                         std::vector<pollfd>& polled) const {
  const Time now = Time::clock::now();
  Time due = Time::max();
  for (const std::size_t side : {0U, 1U}) {
    const std::size_t other = 1 - side;
    short events = 0;
    if (connection.is_connecting) {
      events = side == 0 ? POLLOUT : 0;
    } else {
      const bool is_read =
          connection.is_concealed || connection.streams[other].wants(wishes.troubles[other]);
      if (!connection.has_ended[side] && is_read) events |= POLLIN;
      const Time given = connection.streams[side].due();
      const bool is_held = wishes.troubles[side].holds || connection.is_kept[side];
      if (given <= now && !is_held) events |= POLLOUT;
      if (given > now) due = std::min(due, given);
    }
    polled.push_back({events == 0 ? -1 : connection.sockets[side].get(), events, 0});
  }
  return due;
}

void NetworkRelay::serve(const Wishes& wishes, Connection& connection, const pollfd* polled) {
  if (wishes.is_cut) return reset(connection);
  if (connection.is_connecting) {
    if (polled[0].revents != 0) look_at_connect(wishes, connection);
    return;
  }
  for (const std::size_t to : {0U, 1U}) {
    if (!connection.is_over) move(wishes, connection, to, polled);
  }
  const auto is_done = [&](std::size_t to) {
    const bool is_never_told = connection.was_kept[to] && !connection.is_kept[to];
    return connection.was_told[to] ||
           (is_never_told && connection.has_ended[1 - to] && connection.streams[to].is_empty());
  };
  if (is_done(0) && is_done(1)) connection.is_over = true;
}

void NetworkRelay::look_at_connect(const Wishes& wishes, Connection& connection) {
  int failed = 0;
  socklen_t bytes = sizeof failed;
  ::getsockopt(connection.sockets[0].get(), SOL_SOCKET, SO_ERROR, &failed, &bytes);
  connection.is_connecting = false;
  if (failed != 0) lose(wishes, connection, 0);
}

// From the other side to side `to`.
void NetworkRelay::move(const Wishes& wishes, Connection& connection, std::size_t to,
                        const pollfd* polled) {
  const std::size_t from = 1 - to;
  RelayedStream& stream = connection.streams[to];
  const std::uint64_t damages = stream.damages();
  if (polled[from].revents != 0 && (polled[from].events & POLLIN) != 0) {
    RelayTrouble trouble = wishes.troubles[to];
    if (connection.is_concealed) trouble.swallows = true;
    if (!stream.take(connection.sockets[from].get(), trouble, Time::clock::now())) {
      connection.has_ended[from] = true;
      if (wishes.conceals) return lose(wishes, connection, from);
    }
  }
  damages_ += stream.damages() - damages;
  if (connection.is_concealed || wishes.troubles[to].holds || connection.is_kept[to]) return;
  const std::uint64_t given = stream.given_bytes();
  const bool is_taken = stream.give(connection.sockets[to].get(), Time::clock::now());
  bytes_[to] += stream.given_bytes() - given;
  if (!is_taken) return lose(wishes, connection, to);
  if (!stream.is_empty() || connection.was_told[to]) return;
  if (stream.is_cut_short()) connection.is_over = true;
  if (connection.has_ended[from] && !connection.was_kept[to]) {
    connection.was_told[to] = true;
    ::shutdown(connection.sockets[to].get(), SHUT_WR);
  }
}

// That side is not there any more.
void NetworkRelay::lose(const Wishes& wishes, Connection& connection, std::size_t side) {
  if (!wishes.conceals || connection.is_concealed) return reset(connection);
  connection.is_concealed = true;
  connection.has_ended[side] = true;
  connection.sockets[side].reset();
}

void NetworkRelay::reset(Connection& connection) {
  connection.is_over = true;
  const linger at_once{1, 0};
  for (const ipc::UniqueFd& socket : connection.sockets) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
}

}  // namespace simm::test_support
