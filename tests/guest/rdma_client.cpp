// A client of the cluster in the guest (tests/guest/rdma_cluster.sh), whose pages move by RDMA.
//
//   rdma_client SOCKET uncopied shared|adopted
//       puts pages and gets them again, from and to memory of that kind; compares them, and prints
//       the bytes that were put, that were got, and that the library copied
//   rdma_client SOCKET large BYTES COUNT
//       puts a batch of so many pages of so many bytes in one call, gets it in one, compares, and
//       prints the bytes
//   rdma_client SOCKET gaps SECONDS
//       gets the same pages again and again; prints the longest time between two answers
//   rdma_client SOCKET canary SECONDS
//       gets that run out of time; no byte of their memory changes after they have returned
//   rdma_client SOCKET killed ROUNDS COMMAND
//       clients that are killed meanwhile; no byte changes when their memory is not registered any
//       more, as the command says
//   rdma_client SOCKET bereft ROUNDS KILL RESTART
//       the node daemon is killed by one command and started by the other; no page changes when its
//       call has ended, and no object has bytes that nobody put
#include "tests/guest/rdma_client.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace rdma_client {
namespace {

constexpr std::size_t kPages = 16;

simm::Region region_of(simm::Client& client, const std::string& kind, std::size_t bytes) {
  auto region = client.allocate_region(bytes);
  if (kind == "adopted") {
    // As an engine does that makes its pool with mmap: shared, anonymous, and not ours.
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap", std::strerror(errno));
    region = client.register_region(memory, bytes);
  }
  if (!region) fail("region", region.error().context);
  if (simm::region_kind_name(region->kind()) != kind) fail("region", region->kind_reason());
  return std::move(*region);
}

// Bytes that no other page has.
void fill_with_noise(std::byte* at, std::size_t bytes) {
  unsigned seed = 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    at[i] = std::byte((seed = seed * 1664525 + 1013904223) >> 24);
  }
}

int uncopied(const std::string& socket, const std::string& kind) {
  simm::Client client = attach(socket);
  simm::Region region = region_of(client, kind, 2 * kPages * kPageBytes);
  const std::size_t half = kPages * kPageBytes;
  fill_with_noise(region.data(), half);
  // One page first: the answer says that the memory is registered.
  const Pages first("uncopied/first", 1);
  const Pages rest("uncopied/" + kind, kPages);
  const std::uint64_t bytes_put =
      put(client, first.at(region, 0)) + put(client, rest.at(region, 0));
  const std::uint64_t bytes_got =
      get(client, first.at(region, kPages)) + get(client, rest.at(region, kPages));
  if (std::memcmp(region.data(), region.data() + half, half) != 0) fail("get", "other bytes");
  std::printf("%llu %llu %llu\n", static_cast<unsigned long long>(bytes_put),
              static_cast<unsigned long long>(bytes_got),
              static_cast<unsigned long long>(client.stats().bytes_staged));
  return EXIT_SUCCESS;
}

int large(const std::string& socket, std::size_t page_bytes, std::size_t count) {
  simm::Client client = attach(socket);
  const std::size_t half = page_bytes * count;
  simm::Region region = region_of(client, "shared", 2 * half);
  fill_with_noise(region.data(), half);
  const Pages pages("large/" + std::to_string(page_bytes), count, page_bytes);
  put(client, pages.at(region, 0));
  const std::uint64_t bytes = get(client, pages.at(region, count));
  if (std::memcmp(region.data(), region.data() + half, half) != 0) fail("get", "other bytes");
  std::printf("%llu bytes\n", static_cast<unsigned long long>(bytes));
  return EXIT_SUCCESS;
}

int gaps(const std::string& socket, int seconds) {
  using Clock = std::chrono::steady_clock;
  simm::Client client = attach(socket);
  simm::Region region = region_of(client, "shared", 4 * kPageBytes);
  const auto items = Pages("gaps", 4).at(region, 0);
  put(client, items);
  get(client, items);
  std::vector<simm::PageResult> results(items.size());
  Clock::duration longest{};
  std::uint64_t gets = 0;
  std::uint64_t failed = 0;
  std::string_view why = "none";
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (auto last = Clock::now(); last < end;) {
    bool is_ok = client.get(items, results) == simm::Status::ok;
    for (const simm::PageResult& result : results) {
      is_ok = is_ok && result.ok();
      if (!result.ok()) why = simm::status_name(result.status);
    }
    ++gets;
    failed += is_ok ? 0U : 1U;
    if (!is_ok && Clock::now() < end) continue;
    longest = std::max(longest, Clock::now() - last);
    last = Clock::now();
  }
  const auto gap_ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
  std::printf("longest gap %lld ms, of %llu gets %llu failed (the last one: %s)\n",
              static_cast<long long>(gap_ms), static_cast<unsigned long long>(gets),
              static_cast<unsigned long long>(failed), std::string(why).c_str());
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace rdma_client

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  const std::string command = words.size() > 3 ? words[2] : "";
  if (command == "uncopied") return rdma_client::uncopied(words[1], words[3]);
  if (command == "gaps") return rdma_client::gaps(words[1], std::atoi(argv[3]));
  if (command == "canary") return rdma_client::canary(words[1], std::atoi(argv[3]));
  if (words.size() > 4) {
    if (command == "killed") return rdma_client::killed(words[1], std::atoi(argv[3]), words[4]);
    if (command == "bereft" && words.size() > 5) {
      return rdma_client::bereft(words[1], std::atoi(argv[3]), words[4], words[5]);
    }
    if (command == "large") {
      return rdma_client::large(words[1], std::strtoul(argv[3], nullptr, 10),
                                std::strtoul(argv[4], nullptr, 10));
    }
  }
  rdma_client::fail("usage", "rdma_client SOCKET uncopied|large|gaps|canary|killed|bereft ...");
}
