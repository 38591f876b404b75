#include "daemon/tools/simm-bench/replay_rank.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "daemon/tools/simm-bench/page_pattern.h"
#include "simm/client.h"

namespace simm::bench {
namespace {

class Rank {
public:
  Rank(const ReplayPlan& plan, unsigned rank, Client& client, Region& region, Namespace name_space,
       ReplayBoard& board, std::span<std::uint64_t> fetch_ns)
      : plan_(plan),
        rank_(rank),
        client_(client),
        region_(region),
        board_(board),
        counters_(board.ranks[rank]),
        fetch_ns_(fetch_ns) {
    options_.name_space = std::move(name_space);
    options_.mode = PutMode::if_absent;
    options_.exact_size = true;
    // A replay asks for correctness and throughput; a shared machine may stall for seconds.
    options_.timeout_ms = 30'000;
    const std::size_t objects = kPagesPerCall * plan.model.objects_per_page;
    keys_.reserve(objects);
    names_.reserve(objects);
    items_.reserve(objects);
    results_.resize(objects);
  }

  Outcome replay(const TraceRequest& request, std::uint64_t number) {
    const std::uint64_t pages = pages_of(request);
    Expected<std::uint64_t> prefix = probe(request, pages);
    if (!prefix) return prefix.error();
    const std::uint64_t common = agree_on(*prefix, number);
    const Outcome fetched = fetch(request, common);
    if (!fetched) return fetched;
    if (!plan_.model.is_mla() || rank_ == 0) {
      const Outcome stored = store(request, common, pages);
      if (!stored) return stored;
    }
    add(counters_.requests, 1);
    add(counters_.pages, pages);
    pthread_barrier_wait(&board_.barrier);
    return Done{};
  }

private:
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  // The keys of pages [first, first + count) of the request, and an item for each.
  void name_pages(const TraceRequest& request, std::uint64_t first, std::uint64_t count) {
    keys_.clear();
    names_.clear();
    items_.clear();
    for (std::uint64_t page = first; page < first + count; ++page) {
      append_page_keys(plan_.model, request.block_ids[page / kPagesPerBlock], page % kPagesPerBlock,
                       rank_, keys_);
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const auto depth = static_cast<std::uint32_t>(first + i / plan_.model.objects_per_page + 1);
      const View view(region_, i * plan_.object_bytes, plan_.object_bytes);
      names_.emplace_back(keys_[i]);
      items_.push_back(Item{keys_[i], view, 0, depth});
    }
  }

  std::span<PageResult> results() { return std::span(results_).first(keys_.size()); }
  std::byte* object(std::size_t index) { return region_.data() + index * plan_.object_bytes; }

  // Pages of the batch at hand, from its start, whose objects are all ok.
  std::uint64_t leading_pages() {
    const std::span<PageResult> all = results();
    const auto missing =
        std::find_if(all.begin(), all.end(), [](const PageResult& result) { return !result.ok(); });
    return static_cast<std::uint64_t>(missing - all.begin()) / plan_.model.objects_per_page;
  }

  Error failed(const char* what, Status status) {
    return Error{status, std::string(what) + " of " + std::to_string(keys_.size()) + " objects: " +
                             std::string(status_name(status)) + ": " + simm::last_error()};
  }

  Expected<std::uint64_t> probe(const TraceRequest& request, std::uint64_t pages) {
    for (std::uint64_t first = 0; first < pages; first += kPagesPerCall) {
      const std::uint64_t count = std::min(kPagesPerCall, pages - first);
      name_pages(request, first, count);
      const Status status = client_.exists(names_, results(), options_);
      if (status != Status::ok) return failed("exists", status);
      const std::uint64_t present = leading_pages();
      if (present < count) return first + present;
    }
    return pages;
  }

  // The shortest prefix of all ranks. Two slots in turn: the barrier at the end of a request keeps
  // everybody out of the slot that is made ready for the next one.
  std::uint64_t agree_on(std::uint64_t own, std::uint64_t number) {
    std::atomic<std::uint64_t>& slot = board_.prefix[number % 2];
    std::uint64_t seen = slot.load();
    while (own < seen && !slot.compare_exchange_weak(seen, own)) {
    }
    pthread_barrier_wait(&board_.barrier);
    const std::uint64_t common = slot.load();
    if (rank_ == 0) board_.prefix[(number + 1) % 2].store(~std::uint64_t{0});
    return common;
  }

  Outcome fetch(const TraceRequest& request, std::uint64_t pages) {
    for (std::uint64_t first = 0; first < pages; first += kPagesPerCall) {
      const std::uint64_t count = std::min(kPagesPerCall, pages - first);
      name_pages(request, first, count);
      const auto start = std::chrono::steady_clock::now();
      const Status status = client_.get(items_, results(), options_);
      const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start;
      if (status != Status::ok) return failed("get", status);
      const std::uint64_t call = counters_.fetch_calls.load(std::memory_order_relaxed);
      if (call < fetch_ns_.size()) fetch_ns_[call] = static_cast<std::uint64_t>(spent.count());
      add(counters_.fetch_calls, 1);
      verify();
      const std::uint64_t present = leading_pages();
      add(counters_.pages_hit, present);
      if (present < count) {
        add(counters_.pages_vanished, count - present);
        return Done{};
      }
    }
    return Done{};
  }

  // Every object that was answered with ok, whatever became of the others.
  void verify() {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (!results_[i].ok()) continue;
      add(counters_.bytes_fetched, results_[i].bytes);
      std::uint64_t wrong = count_wrong_bytes(keys_[i], object(i), plan_.object_bytes);
      if (results_[i].bytes != plan_.object_bytes) wrong = plan_.object_bytes;
      add(counters_.bytes_verified, plan_.object_bytes);
      add(counters_.bytes_wrong, wrong);
    }
    // What is not written by the next get must not look right.
    std::fill_n(region_.data(), keys_.size() * plan_.object_bytes, std::byte{0xdb});
  }

  Outcome store(const TraceRequest& request, std::uint64_t from, std::uint64_t pages) {
    for (std::uint64_t first = from; first < pages; first += kPagesPerCall) {
      name_pages(request, first, std::min(kPagesPerCall, pages - first));
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        fill_page(keys_[i], object(i), plan_.object_bytes);
      }
      const Status status = client_.put(items_, results(), options_);
      if (status != Status::ok) return failed("put", status);
      for (const PageResult& result : results()) {
        if (result.ok()) {
          add(counters_.bytes_stored, result.bytes);
        } else {
          add(counters_.put_failures, 1);
        }
      }
    }
    return Done{};
  }

  const ReplayPlan& plan_;
  unsigned rank_;
  Client& client_;
  Region& region_;
  ReplayBoard& board_;
  RankCounters& counters_;
  std::span<std::uint64_t> fetch_ns_;
  CallOptions options_;
  std::vector<std::string> keys_;
  std::vector<std::string_view> names_;
  std::vector<Item> items_;
  std::vector<PageResult> results_;
};

}  // namespace

Outcome replay_as_rank(const Trace& trace, const ReplayPlan& plan, const ReplayRankOptions& options,
                       ReplayBoard& board, std::span<std::uint64_t> fetch_ns) {
  ClientOptions client_options;
  client_options.socket_path = options.socket_path;
  client_options.name = "replay-" + std::to_string(options.rank);
  Expected<Client> client = Client::connect(client_options);
  if (!client) return client.error();
  const std::uint64_t bytes = kPagesPerCall * plan.model.objects_per_page * plan.object_bytes;
  Expected<Region> region = client->allocate_region(bytes);
  if (!region) return region.error();
  Expected<Namespace> name_space = client->open_namespace(options.name_space);
  if (!name_space) return name_space.error();
  Rank rank(plan, options.rank, *client, *region, std::move(*name_space), board, fetch_ns);
  pthread_barrier_wait(&board.barrier);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const Outcome replayed = rank.replay(trace[i], i);
    if (!replayed) return replayed;
  }
  return Done{};
}

}  // namespace simm::bench
