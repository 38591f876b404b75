// Baseline of kv.get_bw, kv.put_bw and kv.get_4k_p50: one thread copies pages between two shared
// mappings, with memcpy and nothing else.
//   baseline_memcpy PAGE_BYTES PAGES ROUNDS CPU [sequential|random]
// sequential: every page of the source goes to the page of the same index of the destination, as a
// batch of pages does. random: pages in a shuffled order go to a small destination that stays in
// the cache, as single gets do. One JSON line; the median of the rounds. CPU -1: not pinned.
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

// Shared memory of ordinary pages: what an arena and a client's region are made of.
static char* map_shared(std::size_t bytes) {
  const int fd = memfd_create("baseline", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::exit(2);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) std::exit(2);
  close(fd);
  std::memset(at, 1, bytes);
  return static_cast<char*>(at);
}

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s PAGE_BYTES PAGES ROUNDS CPU [sequential|random]\n", argv[0]);
    return 2;
  }
  const std::size_t page_bytes = std::strtoull(argv[1], nullptr, 10);
  const std::size_t pages = std::strtoull(argv[2], nullptr, 10);
  const int rounds = std::max(1, std::atoi(argv[3]));
  const int cpu = std::atoi(argv[4]);
  const bool random = argc > 5 && std::strcmp(argv[5], "random") == 0;
  if (page_bytes == 0 || pages == 0) return 2;
  if (cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
  }
  const std::size_t slots = random ? std::max<std::size_t>(1, 65536 / page_bytes) : pages;
  char* source = map_shared(page_bytes * pages);
  char* destination = map_shared(page_bytes * slots);
  std::vector<std::uint32_t> order(pages);
  std::iota(order.begin(), order.end(), 0u);
  if (random) std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  // Short rounds are repeated until they last long enough to be measured.
  const std::size_t sweeps =
      std::max<std::size_t>(1, (std::size_t{64} << 20) / (page_bytes * pages));
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
      for (std::size_t i = 0; i < pages; ++i) {
        std::memcpy(destination + (i % slots) * page_bytes, source + order[i] * page_bytes,
                    page_bytes);
        asm volatile("" ::: "memory");  // every copy is made, in this order
      }
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    seconds.push_back(spent.count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median_s = seconds[seconds.size() / 2];
  const double copies = static_cast<double>(pages * sweeps);
  const double bytes_per_s = copies * static_cast<double>(page_bytes) / median_s;
  // Random small copies are bound by latency; the bound on bandwidth is for whole pages.
  const bool noisy = random ? median_s / copies > 5e-6 : bytes_per_s < 5e9;
  std::printf(
      "{\"name\": \"memcpy\", \"page_bytes\": %zu, \"pages\": %zu, \"order\": \"%s\", "
      "\"bytes_per_s\": %.0f, \"ns_per_copy\": %.1f, \"noisy\": %s}\n",
      page_bytes, pages, random ? "random" : "sequential", bytes_per_s, median_s / copies * 1e9,
      noisy ? "true" : "false");
  return 0;
}
