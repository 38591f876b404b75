// Baseline of tcp.*: one connection over 127.0.0.1 between two processes, blocking calls, nothing
// but the kernel's own copies, through as much memory as the measured transfers.
//   baseline_loopback stream BYTES PAGES ROUNDS CPU_NEAR CPU_FAR     all pages, from far to near
//   baseline_loopback pingpong BYTES PAGES ROUNDS CPU_NEAR CPU_FAR   a page there and back
// CPU -1: not pinned. The first eighth of the rounds warms up. One JSON line.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
}

static bool connect_pair(int& near, int& far) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0) return false;
  if (getsockname(listener, generic, &length) != 0) return false;
  near = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(near, generic, length) != 0) return false;
  far = accept(listener, nullptr, nullptr);
  const int on = 1;
  for (const int fd : {near, far}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  close(listener);
  return far >= 0;
}

// Moves a page with send() or recv().
template <typename Call>
static bool move_all(Call call, int fd, char* page, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t now = call(fd, page, bytes, MSG_NOSIGNAL);
    if (now <= 0) return false;
    page += now;
    bytes -= static_cast<std::size_t>(now);
  }
  return true;
}

int main(int argc, char** argv) {
  const bool is_stream = argc == 7 && std::strcmp(argv[1], "stream") == 0;
  const bool is_pingpong = argc == 7 && std::strcmp(argv[1], "pingpong") == 0;
  if (!is_stream && !is_pingpong) return std::puts("usage: see the head of the source"), 2;
  const std::size_t bytes = std::max(1ull, std::strtoull(argv[2], nullptr, 10));
  const std::size_t pages = std::max(1ull, std::strtoull(argv[3], nullptr, 10));
  const std::size_t rounds = std::max(1ull, std::strtoull(argv[4], nullptr, 10));
  int near = -1;
  int far = -1;
  // Each process has its own once it has written there.
  void* memory = mmap(nullptr, bytes * pages, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED || !connect_pair(near, far)) return std::perror("loopback"), 1;
  const auto page = [&](std::size_t i) { return static_cast<char*>(memory) + i % pages * bytes; };
  if (fork() == 0) {
    close(near);
    pin(std::atoi(argv[6]));
    std::memset(memory, 'x', bytes * pages);
    for (std::size_t i = 0;; ++i) {
      if (is_pingpong && !move_all(recv, far, page(i), bytes)) _exit(0);
      if (!move_all(send, far, page(i), bytes)) _exit(0);
    }
  }
  close(far);
  pin(std::atoi(argv[5]));
  std::vector<double> samples;
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < (is_stream ? pages : 1); ++i) {
      if (is_pingpong && !move_all(send, near, page(round), bytes)) return 1;
      if (!move_all(recv, near, page(is_stream ? i : round), bytes)) return 1;
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (round >= (rounds + 7) / 8 || rounds == 1) samples.push_back(spent.count());
  }
  std::sort(samples.begin(), samples.end());
  const double median_s = samples[samples.size() / 2];
  const double bytes_per_s = static_cast<double>(bytes * pages) / median_s;
  const bool noisy = is_stream ? bytes_per_s < 1e9 : median_s > 200e-6;
  std::printf("{\"%s\": %.2f, \"noisy\": %s}\n", is_stream ? "bytes_per_s" : "p50_us",
              is_stream ? bytes_per_s : median_s * 1e6, noisy ? "true" : "false");
  return 0;
}
