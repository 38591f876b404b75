// The node daemon is killed under gets and puts. When a call has ended, no queue pair of the dead
// daemon touches its pages any more: the pages of a get stay what their client makes them, and no
// object has a byte that its client wrote behind a failed put.
#include <atomic>
#include <random>

#include "tests/guest/canary_memory.h"

namespace rdma_client {
namespace {

constexpr std::byte kBehind{0x77};  // written to the pages of a put when the put has failed

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) fail("bereft", "failed: " + command);
}

// Calls until one fails. Whatever came of the pages: they are ours again then.
template <typename Call>
void until_bereft(const std::vector<simm::Item>& items, const Call& call) {
  std::vector<simm::PageResult> results(items.size());
  bool is_served = true;
  while (is_served) {
    call(items, results);
    for (const simm::PageResult& result : results) {
      is_served = is_served && result.status != simm::Status::unreachable;
    }
  }
}

// Each page is what was put, or a miss.
void check_objects(simm::Client& client, const std::vector<simm::Item>& items,
                   const std::byte* at) {
  std::vector<simm::PageResult> results(items.size());
  for (int tries = 0;; ++tries) {
    static_cast<void>(client.get(items, results));
    bool is_answered = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::byte* const page = at + i * kPageBytes;
      const bool is_hit = results[i].ok();
      is_answered = is_answered && (is_hit || results[i].status == simm::Status::not_found);
      const auto stored = std::count(page, page + kPageBytes, kStored);
      if (is_hit && static_cast<std::size_t>(stored) != kPageBytes) {
        fail("bereft", "an object has bytes that nobody put");
      }
    }
    if (is_answered) return;
    if (tries == 600) fail("bereft", std::string(simm::status_name(results[0].status)));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

int bereft(const std::string& socket, int rounds, const std::string& kill,
           const std::string& restart) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  simm::Client client = attach(socket);
  int under_way = 0;
  for (int round = 0; round < rounds; ++round) {
    auto region = client.allocate_region(2 * kBytesOfGet);
    if (!region) fail("region", region.error().context);
    std::byte* const target = region->data();
    std::byte* const source = target + kBytesOfGet;
    const Pages stored("bereft", kPagesOfGet);
    const Pages written("bereft/" + std::to_string(round), kPagesOfGet);
    fill(source, kBytesOfGet, kStored);
    put(client, stored.at(*region, kPagesOfGet));
    get(client, stored.at(*region, 0));
    std::thread getter([&] {
      until_bereft(stored.at(*region, 0), [&](const auto& items, auto& results) {
        fill(target, kBytesOfGet, kCanary);
        static_cast<void>(client.get(items, results));
      });
      under_way += is_cut(target, kBytesOfGet) ? 1 : 0;
      watch("bereft", target, kBytesOfGet);
    });
    std::thread putter([&] {
      simm::CallOptions options;
      options.mode = simm::PutMode::replace;
      until_bereft(written.at(*region, kPagesOfGet), [&](const auto& items, auto& results) {
        static_cast<void>(client.put(items, results, options));
      });
      fill(source, kBytesOfGet, kBehind);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    run(kill);
    getter.join();
    putter.join();
    run(restart);
    check_objects(client, written.at(*region, 0), target);
  }
  std::printf("seed %u: %d daemons killed, %d of them while bytes came\n", seed, rounds, under_way);
  return EXIT_SUCCESS;
}

}  // namespace rdma_client
