#include "daemon/tools/simm-bench/policy_replay.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "daemon/store/store.h"
#include "daemon/tools/simm-bench/aliased_memory.h"
#include "daemon/tools/simm-bench/policy_rivals.h"
#include "simm/check.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kUnitBytes = 64;
constexpr double kClockStartS = 1000;  // the store's clock does not begin at zero

store::ObjectKey key_of(const std::uint32_t& page, std::uint32_t tenant) {
  store::ObjectKey key;
  key.bytes = {reinterpret_cast<const char*>(&page), sizeof page};
  std::uint64_t state = page;
  key.hash.high = base::splitmix64(state);
  key.hash.low = base::splitmix64(state);
  key.group = base::splitmix64(state);
  key.tenant = {tenant};
  key.name_space = {1};
  return key;
}

class StoreCache {
public:
  explicit StoreCache(store::Store& store) : store_(store) {}

  void begin(const PolicyReplay::Request& request) { request_ = request; }
  [[nodiscard]] bool has(std::uint32_t page) {
    store::ReadPin pin;
    const auto key = key_of(page, request_.tenant);
    if (store_.begin_read(key, store::kNoLease, request_.now_ns, pin) != Status::ok) return false;
    store_.end_read(pin);
    return true;
  }
  void use(std::uint32_t page, std::uint32_t) {
    store_.touch(key_of(page, request_.tenant), store::kNoLease, request_.now_ns);
  }
  void put(std::uint32_t page, std::uint32_t at) {
    store::WriteRequest write;
    write.key = key_of(page, request_.tenant);
    write.length = request_.units * kUnitBytes;
    write.depth = at - request_.first + 1;
    store::WriteResult room = store_.begin_write(write, request_.now_ns);
    while (room.start == store::WriteStart::wait) {
      store_.do_work(request_.now_ns);
      write.evicted_bytes = room.evicted_bytes;
      room = store_.begin_write(write, request_.now_ns);
    }
    if (room.start != store::WriteStart::reserved) return;
    store_.publish(room.reservation, 0, 1, request_.now_ns);
  }
  void probe(std::uint32_t page) {
    // With the default lease: nobody probes without.
    static_cast<void>(store_.exists(key_of(page, request_.tenant), 0, request_.now_ns));
  }

private:
  store::Store& store_;
  PolicyReplay::Request request_{};
};

class SimulatedS3Fifo {
public:
  SimulatedS3Fifo(std::uint32_t unique_pages, std::uint64_t units) : cache_(unique_pages, units) {}

  void begin(const PolicyReplay::Request& request) { units_ = request.units; }
  [[nodiscard]] bool has(std::uint32_t page) const { return cache_.has(page); }
  void use(std::uint32_t page, std::uint32_t) { cache_.use(page); }
  void put(std::uint32_t page, std::uint32_t) { cache_.put(page, units_); }
  void probe(std::uint32_t) {}

private:
  S3FifoCache cache_;
  std::uint32_t units_ = 0;
};

class SimulatedBelady {
public:
  // `next`: for each page of each request, the request that has it next.
  SimulatedBelady(std::uint32_t unique_pages, std::uint64_t units, std::vector<std::uint32_t> next)
      : cache_(unique_pages, units), next_(std::move(next)) {}

  void begin(const PolicyReplay::Request& request) { units_ = request.units; }
  [[nodiscard]] bool has(std::uint32_t page) const { return cache_.has(page); }
  void use(std::uint32_t page, std::uint32_t at) { cache_.use(page, units_, next_[at]); }
  void put(std::uint32_t page, std::uint32_t at) { use(page, at); }
  void probe(std::uint32_t) {}

private:
  BeladyCache cache_;
  std::vector<std::uint32_t> next_;
  std::uint32_t units_ = 0;
};

}  // namespace

PolicyReplay::PolicyReplay(const PolicyTraffic& traffic) : answers_(traffic.answers()) {
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  for (const PolicyRequest& made : traffic.requests()) {
    Request one{};
    one.now_ns = static_cast<base::TimeNs>((kClockStartS + made.at_s) * 1e9);
    one.tenant = made.tenant;
    one.units = made.page_units;
    one.answer = made.answer;
    one.counts = made.counts;
    one.probe = made.probe;
    one.first = static_cast<std::uint32_t>(pages_.size());
    one.count = static_cast<std::uint32_t>(made.pages.size());
    for (const std::uint64_t page : made.pages) {
      const auto [entry, is_new] =
          numbers.emplace(page, static_cast<std::uint32_t>(numbers.size()));
      if (is_new) unique_units_ += made.page_units;
      pages_.push_back(entry->second);
    }
    requests_.push_back(one);
  }
  unique_pages_ = static_cast<std::uint32_t>(numbers.size());
}

std::uint64_t PolicyReplay::units_of(double part) const {
  const auto units = static_cast<std::uint64_t>(part * static_cast<double>(unique_units_));
  return std::max(units, std::uint64_t{1});
}

template <class Cache>
double PolicyReplay::replay(Cache& cache, bool prefix_only) const {
  constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> worst(answers_, kNobody);
  std::vector<std::uint32_t> asked(answers_);
  for (const Request& request : requests_) {
    const std::span<const std::uint32_t> pages = pages_of(request);
    cache.begin(request);
    if (request.probe) {
      for (const std::uint32_t page : pages) cache.probe(page);
      continue;
    }
    std::uint32_t prefix = 0;
    while (prefix < request.count && cache.has(pages[prefix])) ++prefix;
    std::uint32_t found = prefix;
    for (std::uint32_t i = prefix; i < request.count && !prefix_only; ++i) {
      found += cache.has(pages[i]) ? 1u : 0u;
    }
    for (std::uint32_t i = prefix; i-- > 0;) cache.use(pages[i], request.first + i);
    for (std::uint32_t i = request.count; i-- > prefix;) cache.put(pages[i], request.first + i);
    if (!request.counts) continue;
    worst[request.answer] = std::min(worst[request.answer], found);
    asked[request.answer] = request.count;
  }
  double hits = 0;
  double looked_up = 0;
  for (std::uint32_t answer = 0; answer < answers_; ++answer) {
    if (worst[answer] == kNobody) continue;
    hits += worst[answer];
    looked_up += asked[answer];
  }
  return looked_up > 0 ? hits / looked_up : 0;
}

Expected<double> PolicyReplay::hits(store::EvictionKind kind, double part) const {
  const std::uint64_t arena_bytes = units_of(part) * kUnitBytes;
  // Nobody looks at payloads, and a store needs whole units of address space only.
  auto memory = AliasedMemory::map(arena_bytes);
  if (!memory) return std::move(memory).error();
  store::StoreConfig config;
  config.eviction = kind;
  config.objects_max = std::min(unique_pages_, static_cast<std::uint32_t>(units_of(part))) + 1;
  // What goes, goes because of a put.
  config.free_low_permille = 0;
  config.free_high_permille = 0;
  auto store = store::Store::create(config, memory->bytes().first(arena_bytes));
  if (!store) return std::move(store).error();
  StoreCache cache(**store);
  return replay(cache, true);
}

double PolicyReplay::s3_fifo_hits(double part) const {
  SimulatedS3Fifo cache(unique_pages_, units_of(part));
  return replay(cache, true);
}

double PolicyReplay::belady_hits(double part) const {
  std::vector<std::uint32_t> next(pages_.size());
  std::vector<std::uint32_t> next_of(unique_pages_, BeladyCache::kNever);
  for (std::size_t i = requests_.size(); i-- > 0;) {
    if (requests_[i].probe) continue;
    const std::span<const std::uint32_t> pages = pages_of(requests_[i]);
    for (std::size_t at = 0; at < pages.size(); ++at) {
      next[requests_[i].first + at] = next_of[pages[at]];
      next_of[pages[at]] = static_cast<std::uint32_t>(i);
    }
  }
  SimulatedBelady cache(unique_pages_, units_of(part), std::move(next));
  return replay(cache, false);
}

}  // namespace simm::bench
