// Stores a page and fetches it back, alone, in a batch and asynchronously.
//   simmd all &  hello_cpp
#include <simm/client.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

int main() {
  // Finds the daemon's socket: $SIMM_SOCKET, /run/simm/simm.sock, $XDG_RUNTIME_DIR/simm/simm.sock.
  simm::Expected<simm::Client> client = simm::Client::connect();
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().context.c_str());
    return 1;
  }

  // Memory that the daemon shares: pages move between it and the pool without another copy.
  simm::Expected<simm::Region> region = client->allocate_region(1 << 20);
  if (!region) {
    std::fprintf(stderr, "%s\n", region.error().context.c_str());
    return 1;
  }
  std::memcpy(region->data(), "hello", 5);

  // One page.
  if (!client->put("greeting", simm::View(*region, 0, 5)).ok()) return 1;
  const simm::PageResult got = client->get("greeting", simm::View(*region, 4096, 64));
  if (!got.ok() || got.bytes != 5) return 1;
  std::printf("%.5s\n", reinterpret_cast<const char*>(region->data() + 4096));

  // A batch: each page has its own result.
  const std::vector<std::string> keys = {"page/0", "page/1", "page/2"};
  std::vector<simm::Item> items;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    items.push_back({keys[i], simm::View(*region, 8192 * (i + 1), 8192), 0, 0});
  }
  std::vector<simm::PageResult> results(items.size());
  if (client->put(items, results) != simm::Status::ok) return 1;

  // Asynchronous: list, memory and results stay until the callback; completion_fd() is for an event
  // loop.
  bool done = false;
  const auto ticket =
      client->get_async(items, results, {}, [&done](const simm::Completed&) { done = true; });
  while (ticket && !done) {
    client->wait(1000);
    client->poll();
  }
  for (const simm::PageResult& result : results) {
    if (!result.ok()) return 1;
  }
  std::printf("%zu pages\n", results.size());
  return 0;
}
