#include "daemon/tools/simm-bench/trace_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <unordered_map>

namespace simm::bench {
namespace {

// Counts set positions before an index. Fenwick, "A new data structure for cumulative frequency
// tables", 1994.
class FenwickTree {
public:
  explicit FenwickTree(std::size_t size) : sums_(size + 1, 0) {}

  void add(std::size_t index, std::int64_t value) {
    for (std::size_t i = index + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] += value;
  }
  std::int64_t sum_before(std::size_t index) const {
    std::int64_t sum = 0;
    for (std::size_t i = index; i > 0; i &= i - 1) sum += sums_[i];
    return sum;
  }

private:
  std::vector<std::int64_t> sums_;
};

struct Use {
  std::size_t last_position = 0;
  std::uint64_t count = 0;
};

// Everything about blocks: uses, hits, distances.
void count_blocks(const Trace& trace, TraceStatistics& result) {
  FenwickTree last_uses(result.blocks);
  std::unordered_map<std::uint64_t, Use> uses;
  std::vector<double> distances;
  std::vector<double> shared;
  std::size_t position = 0;
  for (const TraceRequest& request : trace) {
    std::size_t leading = 0;
    bool prefix = true;
    for (const std::uint64_t id : request.block_ids) {
      Use& use = uses[id];
      if (use.count > 0) {
        const std::int64_t others =
            last_uses.sum_before(position) - last_uses.sum_before(use.last_position + 1);
        distances.push_back(static_cast<double>(others));
        last_uses.add(use.last_position, -1);
        if (prefix) ++leading;
      } else {
        prefix = false;
      }
      use = Use{position, use.count + 1};
      last_uses.add(position++, 1);
    }
    if (leading > 1) shared.push_back(static_cast<double>(leading));
  }
  result.unique_blocks = uses.size();
  std::uint64_t once = 0;
  const std::uint64_t first = trace.empty() ? 0 : trace.front().block_ids.front();
  for (const auto& [id, use] : uses) {
    once += use.count == 1;
    if (id != first) result.uses_max = std::max(result.uses_max, use.count);
  }
  const auto blocks = static_cast<double>(result.blocks);
  result.used_once = static_cast<double>(once) / static_cast<double>(uses.size());
  result.continuing = static_cast<double>(shared.size()) / static_cast<double>(trace.size());
  result.best_hit_rate = static_cast<double>(distances.size()) / blocks;
  for (std::size_t i = 0; i < kCacheParts.size(); ++i) {
    const double cached = kCacheParts[i] * static_cast<double>(uses.size());
    const auto hits = std::count_if(distances.begin(), distances.end(),
                                    [&](double distance) { return distance < cached; });
    result.lru_hit_rate[i] = static_cast<double>(hits) / blocks;
  }
  result.shared_blocks = distribution_of(std::move(shared));
  result.reuse_distance = distribution_of(std::move(distances));
}

template <typename Get>
Distribution distribution_over(const Trace& trace, Get get) {
  std::vector<double> values;
  values.reserve(trace.size());
  for (const TraceRequest& request : trace) values.push_back(static_cast<double>(get(request)));
  return distribution_of(std::move(values));
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

std::string percent(double part) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f %%", part * 100);
  return text;
}

std::string ranks(const Distribution& distribution) {
  std::string text;
  for (const double value : distribution.at) text += (text.empty() ? "" : " / ") + number(value);
  return text + "; " + number(distribution.mean);
}

std::string rates(const std::array<double, kCacheParts.size()>& parts) {
  std::string text;
  for (const double part : parts) text += (text.empty() ? "" : " / ") + percent(part);
  return text;
}

}  // namespace

Distribution distribution_of(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  for (std::size_t i = 0; i < kReportedRanks.size(); ++i) {
    result.at[i] = values[static_cast<std::size_t>(std::lround(kReportedRanks[i] * (count - 1)))];
  }
  return result;
}

TraceStatistics statistics_of(const Trace& trace) {
  TraceStatistics result;
  if (trace.empty()) return result;
  result.requests = trace.size();
  result.duration_s =
      static_cast<double>(trace.back().timestamp_ms - trace.front().timestamp_ms) / 1e3;
  const auto input = [](const TraceRequest& request) { return request.input_tokens; };
  const auto output = [](const TraceRequest& request) { return request.output_tokens; };
  const auto blocks = [](const TraceRequest& request) { return request.block_ids.size(); };
  result.input_tokens = distribution_over(trace, input);
  result.output_tokens = distribution_over(trace, output);
  result.blocks_per_request = distribution_over(trace, blocks);
  for (const TraceRequest& request : trace) result.blocks += request.block_ids.size();
  count_blocks(trace, result);
  return result;
}

std::string statistics_table(const std::vector<NamedStatistics>& columns) {
  std::string table = "| |";
  std::string rule = "|---|";
  for (const NamedStatistics& column : columns) {
    table += " " + column.name + " |";
    rule += "---|";
  }
  table += "\n" + rule + "\n";
  const auto row = [&](const std::string& title, const auto& cell) {
    table += "| " + title + " |";
    for (const NamedStatistics& column : columns) table += " " + cell(column.statistics) + " |";
    table += "\n";
  };
  using S = const TraceStatistics&;
  row("requests", [](S s) { return std::to_string(s.requests); });
  row("duration, s", [](S s) { return number(s.duration_s); });
  row("prompt tokens", [](S s) { return ranks(s.input_tokens); });
  row("generated tokens", [](S s) { return ranks(s.output_tokens); });
  row("blocks per request", [](S s) { return ranks(s.blocks_per_request); });
  row("blocks", [](S s) { return std::to_string(s.blocks); });
  row("unique blocks", [](S s) { return std::to_string(s.unique_blocks); });
  row("unique blocks used once", [](S s) { return percent(s.used_once); });
  row("uses of the most shared block but the first",
      [](S s) { return std::to_string(s.uses_max); });
  row("requests that share more than the first block", [](S s) { return percent(s.continuing); });
  row("blocks shared by those", [](S s) { return ranks(s.shared_blocks); });
  row("reuse distance, blocks", [](S s) { return ranks(s.reuse_distance); });
  row("best possible hit rate", [](S s) { return percent(s.best_hit_rate); });
  row("LRU hit rate with 1 / 2 / 5 / 10 / 20 / 50 % of the unique blocks",
      [](S s) { return rates(s.lru_hit_rate); });
  return table + "\nDistributions: 10 / 25 / 50 / 75 / 90 / 99 % rank; mean.\n";
}

}  // namespace simm::bench
