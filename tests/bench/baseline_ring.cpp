// Baseline of ipc.noop_p50: a bare pair of single-producer single-consumer rings between two
// processes, 64-byte submissions one way and 32-byte completions back, both sides spinning, one
// message in flight. Nothing is validated.
//   baseline_ring MESSAGES CPU_CLIENT CPU_SERVER      (CPU -1: not pinned). One JSON line.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Submission {
  std::uint64_t words[8];
};
struct Completion {
  std::uint64_t words[4];
};
struct Rings {
  alignas(128) std::atomic<std::uint32_t> submission_tail;
  alignas(128) std::atomic<std::uint32_t> completion_tail;
  alignas(128) Submission submissions[64];
  alignas(128) Completion completions[64];
};

// Tells the core that this is a spin loop.
static inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
}

[[noreturn]] static void serve(Rings& rings) {
  for (std::uint32_t head = 0;; ++head) {
    while (rings.submission_tail.load(std::memory_order_acquire) == head) relax();
    const Submission submission = rings.submissions[head & 63];
    rings.completions[head & 63] = {{submission.words[0], 0, 0, 0}};
    rings.completion_tail.store(head + 1, std::memory_order_release);
  }
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s MESSAGES CPU_CLIENT CPU_SERVER\n", argv[0]);
    return 2;
  }
  const std::uint32_t messages = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  void* at =
      mmap(nullptr, sizeof(Rings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || messages == 0) return 2;
  Rings& rings = *new (at) Rings{};
  const pid_t server = fork();
  if (server < 0) return 2;
  if (server == 0) {
    pin(std::atoi(argv[3]));
    serve(rings);
  }
  pin(std::atoi(argv[2]));
  std::vector<std::uint32_t> samples_ns(messages);
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < messages; ++i) {
    const auto start = std::chrono::steady_clock::now();
    rings.submissions[i & 63] = {{i, 1, 2, 3, 4, 5, 6, 7}};
    rings.submission_tail.store(i + 1, std::memory_order_release);
    while (rings.completion_tail.load(std::memory_order_acquire) == i) relax();
    const Completion completion = rings.completions[i & 63];
    wrong += completion.words[0] != i;
    const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
    samples_ns[i] = static_cast<std::uint32_t>(spent.count());
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  // The first tenth warms caches and clocks up.
  std::sort(samples_ns.begin() + messages / 10, samples_ns.end());
  const auto at_rank = [&](double rank) {
    const std::size_t first = messages / 10;
    return samples_ns[first +
                      static_cast<std::size_t>(rank * static_cast<double>(messages - 1 - first))];
  };
  std::printf(
      "{\"name\": \"ring\", \"messages\": %u, \"p50_ns\": %u, \"p99_ns\": %u, \"wrong\": %llu, "
      "\"noisy\": %s}\n",
      messages, at_rank(0.5), at_rank(0.99), static_cast<unsigned long long>(wrong),
      at_rank(0.5) > 800 ? "true" : "false");
  return wrong == 0 ? 0 : 1;
}
