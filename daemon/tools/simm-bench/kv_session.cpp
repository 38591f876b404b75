#include "daemon/tools/simm-bench/kv_session.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "daemon/tools/simm-bench/page_pattern.h"

namespace simm::bench {
namespace {

constexpr std::size_t kPutBatch = 64;
constexpr std::uint32_t kCallTimeoutMs = 30'000;  // a shared machine may stall for seconds

CallOptions call_options() {
  CallOptions options;
  options.timeout_ms = kCallTimeoutMs;
  options.mode = PutMode::if_absent;
  options.exact_size = true;
  return options;
}

}  // namespace

std::vector<std::string> bench_keys(const std::string& kind, std::size_t first, std::size_t count,
                                    const char* tail) {
  std::vector<std::string> keys;
  keys.reserve(count);
  for (std::size_t i = first; i < first + count; ++i) {
    const XXH128_hash_t front = XXH3_128bits_withSeed(kind.data(), kind.size(), 2 * i);
    const XXH128_hash_t back = XXH3_128bits_withSeed(kind.data(), kind.size(), 2 * i + 1);
    char text[72];
    std::snprintf(text, sizeof text, "%016llx%016llx%016llx%016llx%s",
                  static_cast<unsigned long long>(front.high64),
                  static_cast<unsigned long long>(front.low64),
                  static_cast<unsigned long long>(back.high64),
                  static_cast<unsigned long long>(back.low64), tail);
    keys.emplace_back(text);
  }
  return keys;
}

Expected<KvSession> KvSession::connect(const std::string& socket_path, WaitMode wait) {
  ClientOptions options;
  options.socket_path = socket_path;
  options.wait = wait;
  Expected<Client> client = Client::connect(options);
  if (!client) return client.error();
  return KvSession(std::move(*client));
}

std::vector<Item> KvSession::items_for(const std::vector<std::string>& keys, const Region& region,
                                       std::uint64_t page_bytes) {
  std::vector<Item> items;
  items.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    items.push_back(Item{keys[i], View(region, i * page_bytes, page_bytes), 0, 0});
  }
  return items;
}

Outcome KvSession::put(const std::vector<Item>& items) {
  results_.resize(items.size());
  return judge("put", client_.put(items, results_, call_options()), items.size());
}

Outcome KvSession::get(const std::vector<Item>& items) {
  results_.resize(items.size());
  return judge("get", client_.get(items, results_, call_options()), items.size());
}

Outcome KvSession::remove(const std::vector<std::string>& keys) {
  const std::vector<std::string_view> names(keys.begin(), keys.end());
  results_.resize(names.size());
  return judge("remove", client_.remove(names, results_, call_options()), names.size());
}

Outcome KvSession::put_patterns(const std::vector<std::string>& keys, std::uint64_t page_bytes) {
  Expected<Region> region = client_.allocate_region(kPutBatch * page_bytes);
  if (!region) return region.error();
  for (std::size_t first = 0; first < keys.size(); first += kPutBatch) {
    const std::size_t last = std::min(first + kPutBatch, keys.size());
    const std::vector<std::string> batch(keys.begin() + static_cast<std::ptrdiff_t>(first),
                                         keys.begin() + static_cast<std::ptrdiff_t>(last));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      fill_page(batch[i], region->data() + i * page_bytes, page_bytes);
    }
    const Outcome stored = put(items_for(batch, *region, page_bytes));
    if (!stored) return stored;
  }
  return Done{};
}

Outcome KvSession::verify(const std::vector<Item>& items, const Region& region) {
  std::size_t wrong = 0;
  for (const Item& item : items) {
    wrong += count_wrong_bytes(item.key, region.data() + item.view.offset(), item.view.length());
  }
  if (wrong == 0) return Done{};
  return Error{Status::corrupt, std::to_string(wrong) + " wrong bytes in a batch of " +
                                    std::to_string(items.size()) + " pages"};
}

Outcome KvSession::judge(const char* what, Status status, std::size_t count) {
  for (std::size_t i = 0; status == Status::ok && i < count; ++i) status = results_[i].status;
  if (status == Status::ok) return Done{};
  return Error{status, std::string(what) + " of " + std::to_string(count) +
                           " pages: " + std::string(status_name(status)) + " " +
                           simm::last_error() + " (is the pool large enough?)"};
}

}  // namespace simm::bench
