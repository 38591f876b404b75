#include "tests/siege/strangers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/siege/known_peer.h"
#include "tests/siege/precedence.h"

namespace simm::siege {
namespace {

constexpr std::size_t kOpenMax = 600;
constexpr int kPatienceMs = 60'000;
const std::string kHost = "Host: 127.0.0.1\r\n";
constexpr int kStrangerMs = 500;  // no longer does a stranger wait for an answer
// Between what he says: a thousand a second are a flood, and leave etcd a part of two CPUs.
constexpr std::chrono::milliseconds kPause{1};

void say(const ipc::UniqueFd& socket, std::string_view text) {
  [[maybe_unused]] const ssize_t sent =
      ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void reset(ipc::UniqueFd socket) {
  const linger at_once{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

// The other end is not told, where this machine allows that: it is half open.
void vanish(ipc::UniqueFd socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on);
}

// The words in turn, at each port in turn. What has begun goes on, a byte at a time.
void attack_by_words(const std::vector<std::string>& words,
                     const std::vector<std::string>& addresses, const IsOver& is_over) {
  std::deque<ipc::UniqueFd> open;
  for (std::size_t i = 0; !is_over(); ++i) {
    std::this_thread::sleep_for(kPause);
    ipc::UniqueFd socket = connect_to(addresses[i % addresses.size()]);
    if (!socket.valid()) continue;
    const std::size_t kind = i / addresses.size() % (words.size() + 1);
    if (kind == words.size()) {
      vanish(std::move(socket));
      continue;
    }
    say(socket, words[kind]);
    if (!open.empty()) say(open[i % open.size()], "x");
    open.push_back(std::move(socket));
    if (open.size() > kOpenMax) open.pop_front();
  }
}

// The answer's beginning; empty: hung up on, or nothing came.
std::string answer_of(const ipc::UniqueFd& socket, int patience_ms) {
  std::array<char, 4096> text;
  pollfd one{socket.get(), POLLIN, 0};
  if (::poll(&one, 1, patience_ms) != 1) return {};
  const ssize_t got = ::recv(socket.get(), text.data(), text.size(), 0);
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : std::string();
}

}  // namespace

Assault::Assault(const std::vector<std::function<void(const IsOver&)>>& attacks) {
  for (const auto& attack : attacks) {
    threads_.emplace_back([this, attack] {
      stand_back();
      attack([this] { return is_over_.load(); });
    });
  }
}

Assault::~Assault() {
  is_over_ = true;
  for (std::thread& thread : threads_) thread.join();
}

void attack_as_strangers(const std::vector<std::string>& addresses, const IsOver& is_over) {
  std::deque<ipc::UniqueFd> open;
  for (std::size_t i = 0; !is_over(); ++i) {
    ipc::UniqueFd socket = connect_to(addresses[i % addresses.size()]);
    if (!socket.valid()) continue;
    switch (i / addresses.size() % 4) {
      case 0:
        break;
      case 1:
        say(socket, std::string(100, '\0'));
        break;
      case 2:
        say(socket, std::string(4096, 'G'));
        break;
      default:
        reset(std::move(socket));
        continue;
    }
    open.push_back(std::move(socket));
    if (open.size() > kOpenMax) open.pop_front();
  }
}

void attack_by_http(const std::vector<std::string>& addresses, const IsOver& is_over) {
  attack_by_words(
      {"", std::string(4096, 'G'), "GET /metrics HTTP/1.1\r\n" + kHost + "X: ",
       "GET / HTTP/1.1\r\n" + std::string(100'000, 'h'),
       "POST /v3/kv/range HTTP/1.1\r\n" + kHost + "Content-Length: 1000000000\r\n\r\n{\"key\": \"",
       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      addresses, is_over);
}

void attack_by_pages(const std::vector<std::string>& addresses, const IsOver& is_over) {
  std::string many;
  for (int i = 0; i < 50; ++i) many += "GET /metrics HTTP/1.1\r\n" + kHost + "\r\n";
  attack_by_words({many, "GET /status.json HTTP/1.1\r\n" + kHost + "\r\n"}, addresses, is_over);
}

void attack_by_requests(const std::string& address, const std::string& request,
                        const IsOver& is_over) {
  ipc::UniqueFd socket;
  while (!is_over()) {
    std::this_thread::sleep_for(kPause);
    if (!socket.valid()) socket = connect_to(address);
    if (!socket.valid()) continue;
    say(socket, request);
    if (answer_of(socket, kStrangerMs).empty()) socket.reset();
  }
}

bool reads_metrics(const std::string& address) {
  const ipc::UniqueFd socket = connect_to(address);
  if (!socket.valid()) return false;
  say(socket, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
  return answer_of(socket, kPatienceMs).rfind("HTTP/1.1 200 OK", 0) == 0;
}

}  // namespace simm::siege
