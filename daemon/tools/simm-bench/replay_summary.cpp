#include "daemon/tools/simm-bench/replay_summary.h"

#include <cstdio>
#include <functional>

#include "daemon/tools/simm-bench/worker_pool.h"

namespace simm::bench {
namespace {

double fetch_us(const ReplaySummary& summary, double rank) {
  std::vector<std::uint64_t> samples = summary.fetch_ns;
  return static_cast<double>(sample_at(samples, rank)) / 1e3;
}

std::string text_of(const char* format, double value) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string gigabytes(std::uint64_t bytes) {
  return text_of("%.2f GB", static_cast<double>(bytes) / 1e9);
}

double rate(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

double ReplaySummary::hit_rate() const {
  return rate(pages_hit, pages);
}
double ReplaySummary::best_hit_rate() const {
  return rate(best_pages_hit, pages);
}

nlohmann::json ReplaySummary::to_json() const {
  const ReplayCourse course = course_of(samples);
  return {{"model", model},
          {"scale", scale},
          {"object_bytes", object_bytes},
          {"requests", requests},
          {"pages", pages},
          {"hit_rate", hit_rate()},
          {"best_hit_rate", best_hit_rate()},
          {"pages_vanished", pages_vanished},
          {"put_failures", put_failures},
          {"unique_bytes", unique_bytes},
          {"bytes_stored", bytes_stored},
          {"bytes_fetched", bytes_fetched},
          {"bytes_verified", bytes_verified},
          {"bytes_wrong", bytes_wrong},
          {"fetch_p50_us", fetch_us(*this, 0.50)},
          {"fetch_p99_us", fetch_us(*this, 0.99)},
          {"seconds", seconds},
          {"course", {{"hit_rate", course.hit_rate}, {"bytes_per_s", course.bytes_per_s}}}};
}

nlohmann::json total_of(const std::vector<ReplaySummary>& summaries) {
  ReplaySummary total;
  nlohmann::json models = nlohmann::json::array();
  for (const ReplaySummary& summary : summaries) {
    total.add(summary);
    total.requests += summary.requests;
    total.pages += summary.pages;
    total.pages_hit += summary.pages_hit;
    total.best_pages_hit += summary.best_pages_hit;
    total.unique_bytes += summary.unique_bytes;
    total.seconds += summary.seconds;
    total.fetch_ns.insert(total.fetch_ns.end(), summary.fetch_ns.begin(), summary.fetch_ns.end());
    models.push_back(summary.to_json());
  }
  nlohmann::json object = total.to_json();
  for (const char* only_of_a_model : {"model", "scale", "object_bytes", "course"}) {
    object.erase(only_of_a_model);
  }
  object["models"] = std::move(models);
  return object;
}

std::string replay_table(const std::vector<ReplaySummary>& summaries) {
  std::string table;
  const auto row = [&](const char* title,
                       const std::function<std::string(const ReplaySummary&)>& cell) {
    char text[64];
    std::snprintf(text, sizeof text, "%-26s", title);
    table += text;
    for (const ReplaySummary& summary : summaries) {
      std::snprintf(text, sizeof text, "%18s", cell(summary).c_str());
      table += text;
    }
    table += "\n";
  };
  using S = const ReplaySummary&;
  row("model", [](S s) { return s.model; });
  row("scaled down by", [](S s) { return std::to_string(s.scale); });
  row("object, bytes", [](S s) { return std::to_string(s.object_bytes); });
  row("requests", [](S s) { return std::to_string(s.requests); });
  row("pages looked up, per rank", [](S s) { return std::to_string(s.pages); });
  row("hit rate", [](S s) { return text_of("%.2f %%", 100 * s.hit_rate()); });
  row("best possible hit rate", [](S s) { return text_of("%.2f %%", 100 * s.best_hit_rate()); });
  row("vanished after the probe", [](S s) { return std::to_string(s.pages_vanished); });
  row("puts that failed", [](S s) { return std::to_string(s.put_failures); });
  row("unique", [](S s) { return gigabytes(s.unique_bytes); });
  row("stored", [](S s) { return gigabytes(s.bytes_stored); });
  row("fetched", [](S s) { return gigabytes(s.bytes_fetched); });
  row("verified", [](S s) { return gigabytes(s.bytes_verified); });
  row("wrong bytes", [](S s) { return std::to_string(s.bytes_wrong); });
  row("fetch p50, us", [](S s) { return text_of("%.1f", fetch_us(s, 0.50)); });
  row("fetch p99, us", [](S s) { return text_of("%.1f", fetch_us(s, 0.99)); });
  row("duration, s", [](S s) { return text_of("%.1f", s.seconds); });
  return table;
}

}  // namespace simm::bench
