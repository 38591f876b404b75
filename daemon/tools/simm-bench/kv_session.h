// A worker's connection for key/value measurements: client, keys and page patterns, and calls that
// turn anything but full success into an error, because a figure of failed calls is worthless.
// Thread: the worker's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simm/client.h"

namespace simm::bench {

// Keys like those of an engine: 64 hex digits and a tail; `kind` keeps measurements apart. The tail
// tells who reads the page: rank 0 of a model that is split over its ranks, or every rank (then a
// node of a cluster fetches it once for all of them).
inline constexpr const char* kOneRanksTail = "_0_k";
inline constexpr const char* kAllRanksTail = "__k";
std::vector<std::string> bench_keys(const std::string& kind, std::size_t first, std::size_t count,
                                    const char* tail = kOneRanksTail);

class KvSession {
public:
  static Expected<KvSession> connect(const std::string& socket_path, WaitMode wait);

  Client& client() noexcept { return client_; }

  // A page of `page_bytes` per key, in order, from the start of the region.
  static std::vector<Item> items_for(const std::vector<std::string>& keys, const Region& region,
                                     std::uint64_t page_bytes);

  Outcome put(const std::vector<Item>& items);
  Outcome get(const std::vector<Item>& items);
  Outcome remove(const std::vector<std::string>& keys);

  // Puts objects of `page_bytes` whose content follows from their keys, 64 at a time.
  Outcome put_patterns(const std::vector<std::string>& keys, std::uint64_t page_bytes);

  // An error when a page that lies in the region is not what its key says.
  static Outcome verify(const std::vector<Item>& items, const Region& region);

private:
  explicit KvSession(Client client) : client_(std::move(client)) {}
  Outcome judge(const char* what, Status status, std::size_t count);

  Client client_;
  std::vector<PageResult> results_;
};

}  // namespace simm::bench
