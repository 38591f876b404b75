// Baseline of tcp.*: one connection over 127.0.0.1 between two processes, blocking calls, nothing
// but the kernel's own copies.
//   baseline_loopback stream BYTES TOTAL     pieces of BYTES, one way, until TOTAL bytes have
//   arrived baseline_loopback pingpong BYTES ROUNDS  BYTES there and back, one in flight
// One JSON line.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using Clock = std::chrono::steady_clock;

static bool connect_pair(int& left, int& right) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0) return false;
  if (getsockname(listener, generic, &length) != 0) return false;
  left = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(left, generic, length) != 0) return false;
  right = accept(listener, nullptr, nullptr);
  const int on = 1;
  for (const int fd : {left, right}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  close(listener);
  return right >= 0;
}

static bool send_all(int fd, const std::vector<char>& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

static bool receive_all(int fd, std::vector<char>& bytes) {
  std::size_t received = 0;
  while (received < bytes.size()) {
    const ssize_t now = recv(fd, bytes.data() + received, bytes.size() - received, 0);
    if (now <= 0) return false;
    received += static_cast<std::size_t>(now);
  }
  return true;
}

// The first eighth warms up: buffers grow, pages are touched.
static int stream(int fd, std::vector<char>& piece, std::uint64_t total) {
  const std::uint64_t pieces = total / piece.size();
  const std::uint64_t warm = pieces / 8;
  Clock::time_point begin = Clock::now();
  for (std::uint64_t i = 0; i < pieces; ++i) {
    if (i == warm) begin = Clock::now();
    if (!receive_all(fd, piece)) return 1;
  }
  const std::chrono::duration<double> spent = Clock::now() - begin;
  std::printf("{\"name\": \"loopback_stream\", \"bytes\": %zu, \"bytes_per_s\": %.0f}\n",
              piece.size(), static_cast<double>((pieces - warm) * piece.size()) / spent.count());
  return 0;
}

static int pingpong(int fd, std::vector<char>& piece, std::uint64_t rounds) {
  std::vector<double> samples_us;
  samples_us.reserve(rounds);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    if (!send_all(fd, piece) || !receive_all(fd, piece)) return 1;
    const std::chrono::duration<double, std::micro> spent = Clock::now() - begin;
    if (i >= rounds / 8) samples_us.push_back(spent.count());
  }
  std::sort(samples_us.begin(), samples_us.end());
  std::printf(
      "{\"name\": \"loopback_pingpong\", \"bytes\": %zu, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
      piece.size(), samples_us[samples_us.size() / 2], samples_us[samples_us.size() * 99 / 100]);
  return 0;
}

int main(int argc, char** argv) {
  const bool is_stream = argc == 4 && std::strcmp(argv[1], "stream") == 0;
  const bool is_pingpong = argc == 4 && std::strcmp(argv[1], "pingpong") == 0;
  const std::size_t bytes = argc == 4 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const std::uint64_t amount = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 0;
  if ((!is_stream && !is_pingpong) || bytes == 0 || amount < (is_stream ? bytes : 1)) {
    std::fprintf(stderr, "usage: %s stream BYTES TOTAL | pingpong BYTES ROUNDS\n", argv[0]);
    return 2;
  }
  int ours = -1;
  int peers = -1;
  if (!connect_pair(ours, peers)) {
    std::perror("loopback");
    return 1;
  }
  std::vector<char> piece(bytes, 'x');
  const pid_t peer = fork();
  if (peer < 0) return 1;
  if (peer == 0) {
    close(ours);
    while ((is_stream || receive_all(peers, piece)) && send_all(peers, piece)) {
    }
    _exit(0);
  }
  close(peers);
  const int failed = is_stream ? stream(ours, piece, amount) : pingpong(ours, piece, amount);
  close(ours);  // which ends the peer
  waitpid(peer, nullptr, 0);
  return failed;
}
