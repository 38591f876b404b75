// What the parts of rdma_client share: a client with the patience of an emulated machine, memory in
// pages, and objects of known bytes. Thread: any.
#pragma once

#include <simm/client.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace rdma_client {

constexpr std::size_t kPageBytes = 256 << 10;
constexpr std::uint32_t kPatienceMs = 60'000;

[[noreturn]] inline void fail(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "rdma_client: %s: %s\n", what.c_str(), why.c_str());
  std::exit(EXIT_FAILURE);
}

inline simm::Client attach(const std::string& socket) {
  simm::ClientOptions options;
  options.socket_path = socket;
  options.connect_timeout_ms = kPatienceMs;
  options.sync_timeout_ms = kPatienceMs;
  auto client = simm::Client::connect(options);
  if (!client) fail("connect", client.error().context);
  return std::move(*client);
}

// Objects "<prefix>/0", "<prefix>/1", ..., and a page of a region for each, from `first_page` on.
class Pages {
public:
  Pages(const std::string& prefix, std::size_t count, std::size_t page_bytes = kPageBytes)
      : page_bytes_(page_bytes) {
    for (std::size_t i = 0; i < count; ++i) keys_.push_back(prefix + "/" + std::to_string(i));
  }
  [[nodiscard]] std::vector<simm::Item> at(const simm::Region& region,
                                           std::size_t first_page) const {
    std::vector<simm::Item> items;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      items.push_back({keys_[i], simm::View(region, (first_page + i) * page_bytes_, page_bytes_)});
    }
    return items;
  }

private:
  const std::size_t page_bytes_;
  std::vector<std::string> keys_;
};

// Tries until it is done: memory is registered with devices a moment after its client has it.
// Returns the bytes of the pages.
template <typename Call>
std::uint64_t insist(const char* what, const std::vector<simm::Item>& items, const Call& call) {
  std::vector<simm::PageResult> results(items.size());
  for (int tries = 0; tries < 600; ++tries) {
    bool are_done = call(items, results) == simm::Status::ok;
    for (const simm::PageResult& result : results) are_done = are_done && result.ok();
    if (are_done) {
      std::uint64_t bytes = 0;
      for (const simm::Item& item : items) bytes += item.view.length();
      return bytes;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fail(what, std::string(simm::status_name(results[0].status)));
}

inline std::uint64_t put(simm::Client& client, const std::vector<simm::Item>& items) {
  simm::CallOptions options;
  options.mode = simm::PutMode::replace;
  return insist("put", items, [&](const auto& pages, auto& results) {
    return client.put(pages, results, options);
  });
}

inline std::uint64_t get(simm::Client& client, const std::vector<simm::Item>& items) {
  return insist("get", items,
                [&](const auto& pages, auto& results) { return client.get(pages, results); });
}

// Gets that run out of time while bytes come, each followed by a canary.
int canary(const std::string& socket, int seconds);
// Clients that are killed while bytes come into memory that outlives them. `registered`: a command
// that prints how many bytes the daemon has registered with its devices.
int killed(const std::string& socket, int rounds, const std::string& registered);
// The node daemon is killed, by the command `kill`, under gets and puts, and started again.
int bereft(const std::string& socket, int rounds, const std::string& kill,
           const std::string& restart);

}  // namespace rdma_client
