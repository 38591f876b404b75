// Baseline of ipc.descriptors: how many 64-byte page descriptors per second one reader takes out of
// memory that another process may write, copying each word of them and of their keys once and
// believing all of it.
//   baseline_descriptors BATCHES CPU KEY_BYTES
// Batches are 1,024 descriptors with a key each, one key behind the other. CPU -1: not pinned.
// One JSON line; the median of nine rounds.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Descriptor {
  std::uint64_t words[8];
};

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s BATCHES CPU KEY_BYTES\n", argv[0]);
    return 2;
  }
  const std::uint64_t batches = std::strtoull(argv[1], nullptr, 10);
  const int cpu = std::atoi(argv[2]);
  if (cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
  }
  constexpr std::size_t kSlots = 2048;
  constexpr std::size_t kBatch = 1024;
  const std::size_t key_words = std::strtoull(argv[3], nullptr, 10) * kBatch / 8;
  const std::size_t shared_bytes = kSlots * sizeof(Descriptor) + key_words * 8;
  void* at = mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || batches == 0) return 2;
  auto* shared = static_cast<volatile Descriptor*>(at);
  for (std::size_t i = 0; i < kSlots; ++i) {
    for (std::size_t w = 0; w < 8; ++w) shared[i].words[w] = i * 8 + w;
  }
  auto* keys = reinterpret_cast<volatile std::uint64_t*>(static_cast<char*>(at) +
                                                         kSlots * sizeof(Descriptor));
  for (std::size_t w = 0; w < key_words; ++w) keys[w] = w;
  std::vector<Descriptor> taken(kBatch);
  std::vector<std::uint64_t> taken_keys(key_words + 1);
  std::vector<double> rates;
  std::uint64_t sum = 0;
  for (int round = 0; round < 9; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      const std::size_t first = batch % 2 * kBatch;
      for (std::size_t i = 0; i < kBatch; ++i) {
        Descriptor private_copy;
        for (std::size_t w = 0; w < 8; ++w) private_copy.words[w] = shared[first + i].words[w];
        taken[i] = private_copy;
      }
      for (std::size_t w = 0; w < key_words; ++w) taken_keys[w] = keys[w];
      sum += taken[batch % kBatch].words[0] + taken_keys[batch % (key_words + 1)];
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(batches * kBatch) / spent.count());
  }
  std::sort(rates.begin(), rates.end());
  const double rate = rates[rates.size() / 2];
  std::printf(
      "{\"name\": \"descriptors\", \"batches\": %llu, \"descriptors_per_s\": %.0f, \"sum\": %llu, "
      "\"noisy\": %s}\n",
      static_cast<unsigned long long>(batches), rate, static_cast<unsigned long long>(sum),
      rate < 2e7 ? "true" : "false");
  return 0;
}
