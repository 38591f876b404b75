// cost_client: makes the calls whose cost is counted. From its input it reads lines "CALL TIMES",
// answers each with "done", and ends with its input. Before a line is answered its calls have all
// succeeded, else the program says why and ends with 1.
//
// Calls: get_4k, put_4k, get_128x4k, exists_128. Each sleeps at once instead of spinning, and comes
// after a pause in which the daemon has gone to sleep: so each takes the same way every time.
#include <simm/client.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPages = 128;
constexpr useconds_t kPauseUs = 10'000;  // a profiler makes a daemon's way to sleep long

struct Workload {
  simm::Client& client;
  simm::Region& region;
  std::vector<std::string> keys;
  std::vector<std::string_view> names;
  std::vector<simm::Item> items;
  std::vector<simm::PageResult> results;
};

bool all_ok(const std::vector<simm::PageResult>& results) {
  for (const simm::PageResult& result : results) {
    if (!result.ok()) return false;
  }
  return true;
}

// What a profiler collects: it is told this name.
[[gnu::noinline]] bool measured_call(Workload& work, std::string_view what) {
  const simm::View page(work.region, 0, kPageBytes);
  if (what == "get_4k") return work.client.get(work.keys[0], page).ok();
  if (what == "put_4k") return work.client.put(work.keys[0], page).ok();
  if (what == "get_128x4k") {
    return work.client.get(work.items, work.results) == simm::Status::ok && all_ok(work.results);
  }
  return what == "exists_128" && work.client.exists(work.names, work.results) == simm::Status::ok &&
         all_ok(work.results);
}

int fail(const std::string& why) {
  std::fprintf(stderr, "cost_client: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main() {
  simm::ClientOptions options;
  options.wait = simm::WaitMode::event;
  options.sync_timeout_ms = 60'000;  // a profiler makes everything slow
  options.connect_timeout_ms = 60'000;
  auto client = simm::Client::connect(options);
  if (!client) return fail(client.error().context);
  auto region = client->allocate_region(2 * kPages * kPageBytes);
  if (!region) return fail(region.error().context);
  std::memset(region->data(), 7, 2 * kPages * kPageBytes);
  Workload work{*client, *region, {}, {}, {}, std::vector<simm::PageResult>(kPages)};
  for (std::size_t i = 0; i < kPages; ++i) work.keys.push_back("page/" + std::to_string(i));
  for (std::size_t i = 0; i < kPages; ++i) {
    work.names.push_back(work.keys[i]);
    work.items.push_back({work.keys[i], simm::View(*region, i * kPageBytes, kPageBytes), 0, 0});
  }
  if (client->put(work.items, work.results) != simm::Status::ok || !all_ok(work.results)) {
    return fail("the first put failed");
  }
  std::string what;
  unsigned long times = 0;
  while (std::cin >> what >> times) {
    for (unsigned long i = 0; i < times; ++i) {
      ::usleep(kPauseUs);
      if (!measured_call(work, what)) return fail(what + " failed");
    }
    std::puts("done");
    std::fflush(stdout);
  }
  return 0;
}
