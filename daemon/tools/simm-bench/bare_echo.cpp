#include "daemon/tools/simm-bench/bare_echo.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "daemon/peers/tcp_socket.h"
#include "ipc/fd.h"

namespace simm::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEventsMax = 128;
constexpr int kTickMs = 100;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One end of all connections. What is there is read whole: messages are shorter than the buffer.
class Ends {
public:
  Ends() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  Outcome add(ipc::UniqueFd socket) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = sockets_.size();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
      return Error{Status::io_error, "a connection can not be watched"};
    }
    sockets_.push_back(std::move(socket));
    return Done{};
  }
  // Calls `on_message` for each socket that had something; false: none had within the time.
  template <typename OnMessage>
  bool read(std::chrono::nanoseconds longest, OnMessage on_message) {
    std::array<epoll_event, kEventsMax> events{};
    const auto ns = longest.count();
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    pollfd ready{epoll_.get(), POLLIN, 0};
    // A wait in milliseconds would be longer than the pause between two messages.
    if (ns > 0 && ns < 2'000'000 && ::ppoll(&ready, 1, &time, nullptr) <= 0) return false;
    const int ms = ns < 2'000'000 ? 0 : static_cast<int>(ns / 1'000'000);
    const int found = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, ms);
    for (int i = 0; i < found; ++i) {
      const int socket = sockets_[events[static_cast<std::size_t>(i)].data.u64].get();
      const control::TcpMoved got = control::receive_tcp(socket, buffer_);
      if (got.result == control::TcpResult::moved) on_message(socket);
    }
    return found > 0;
  }
  [[nodiscard]] int socket(std::size_t index) const { return sockets_[index].get(); }

private:
  ipc::UniqueFd epoll_;
  std::vector<ipc::UniqueFd> sockets_;
  std::array<std::byte, 16384> buffer_{};
};

Outcome connect_all(std::uint32_t connections, Ends& near, Ends& far) {
  const auto any = cluster::SocketAddress::parse("127.0.0.1:0");
  auto listening = control::listen_tcp(*any, 4096);
  if (!listening) return listening.error();
  const auto address = control::bound_address(listening->get());
  if (!address) return address.error();
  for (std::uint32_t i = 0; i < connections; ++i) {
    auto socket = control::start_connect(*address);
    if (!socket) return socket.error();
    pollfd waiting{listening->get(), POLLIN, 0};
    if (::poll(&waiting, 1, 10'000) != 1) return Error{Status::timeout, "no connection came"};
    auto accepted = control::accept_tcp(listening->get());
    if (!accepted) return accepted.error();
    if (!accepted->has_value()) return Error{Status::unreachable, "a connection went away"};
    if (Outcome added = near.add(std::move(*socket)); !added) return added;
    if (Outcome added = far.add(std::move((*accepted)->socket)); !added) return added;
  }
  return Done{};
}

}  // namespace

Expected<double> run_bare_echo(const BareEcho& echo) {
  Ends near;
  Ends far;
  if (Outcome done = connect_all(echo.connections, near, far); !done) return done.error();
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> answered{0};
  std::thread server([&] {
    const std::vector<std::byte> answer(echo.answer_bytes);
    while (!is_over.load(std::memory_order_relaxed)) {
      far.read(std::chrono::milliseconds(kTickMs), [&](int socket) {
        answered.fetch_add(1, std::memory_order_relaxed);
        (void)control::send_tcp(socket, answer);
      });
    }
  });
  clockid_t cpu_clock{};
  const bool has_clock = ::pthread_getcpuclockid(server.native_handle(), &cpu_clock) == 0;
  const auto cpu_ns = [&] {
    timespec time{};
    ::clock_gettime(cpu_clock, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const std::vector<std::byte> message(echo.message_bytes);
  const auto begin = Clock::now();
  const double began_ns = has_clock ? cpu_ns() : 0;
  std::uint64_t sent = 0;
  // In steps, as heartbeats come: each connection in its turn.
  for (double now = 0; now < echo.seconds; now = seconds_since(begin)) {
    for (; static_cast<double>(sent) < now * echo.messages_per_s; ++sent) {
      (void)control::send_tcp(near.socket(sent % echo.connections), message);
    }
    const double next = static_cast<double>(sent + 1) / echo.messages_per_s - seconds_since(begin);
    near.read(std::chrono::nanoseconds(std::max<std::int64_t>(1, std::int64_t(next * 1e9))),
              [](int) {});
  }
  const double used_ns = has_clock ? cpu_ns() - began_ns : 0;
  is_over = true;
  server.join();
  if (!has_clock || answered == 0) return Error{Status::io_error, "no CPU time of a bare echo"};
  return used_ns / static_cast<double>(answered.load());
}

}  // namespace simm::bench
