#include "daemon/tools/simmctl/chrome_trace.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/trace_record.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

using base::kOperationStages;
using base::kRequestStages;

struct Span {
  std::uint64_t from_ns;
  std::uint64_t to_ns;
};

// A stage that was left out is as long as nothing, at the end of the one before.
std::vector<std::uint64_t> stamps_of(const ordered_json& record, std::size_t count) {
  std::vector<std::uint64_t> stamps;
  const ordered_json& given = record["stamps_ns"];
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t at = i < given.size() ? given[i].get<std::uint64_t>() : 0;
    stamps.push_back(stamps.empty() ? at : std::max(at, stamps.back()));
  }
  return stamps;
}

// Viewers draw what is on one thread as a tree, so things at the same time need threads of their
// own: the lowest on which nothing is going on.
class Lanes {
public:
  std::size_t place(const Span& span) {
    const auto free = std::find_if(ends_.begin(), ends_.end(), [&span](std::uint64_t end_ns) {
      return end_ns <= span.from_ns;
    });
    if (free == ends_.end()) {
      ends_.push_back(span.to_ns);
      return ends_.size() - 1;
    }
    *free = span.to_ns;
    return static_cast<std::size_t>(free - ends_.begin());
  }
  [[nodiscard]] std::size_t count() const { return ends_.size(); }

private:
  std::vector<std::uint64_t> ends_;
};

std::string id_text(std::uint64_t id) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(id));
  return text.data();
}

class Writer {
public:
  explicit Writer(ordered_json& events) : events_(events) {}

  void add_daemon(const ordered_json& daemon) {
    pid_ = daemon["pid"].get<std::uint64_t>();
    name("process_name", 0, "simmd " + daemon["daemon"].get<std::string>());
    std::vector<std::pair<Span, const ordered_json*>> records;
    for (const ordered_json& record : daemon["records"]) {
      const auto stamps = stamps_of(record, stages_of(record).size());
      records.push_back({{stamps.front(), stamps.back()}, &record});
    }
    std::sort(records.begin(), records.end(),
              [](const auto& a, const auto& b) { return a.first.from_ns < b.first.from_ns; });
    lanes_.clear();
    for (const auto& [span, record] : records) add_record(span, *record);
    for (const auto& [key, lanes] : lanes_) {
      for (std::size_t lane = 0; lane < lanes.count(); ++lane) {
        const std::string agent = "agent " + std::to_string(key.first);
        name("thread_name", tid(key, lane),
             agent + (key.second ? " shard" : "") +
                 (lane == 0 ? "" : " (" + std::to_string(lane + 1) + ")"));
      }
    }
  }

private:
  using Key = std::pair<std::uint64_t, bool>;  // agent, and whether it is its shard

  static std::span<const char* const> stages_of(const ordered_json& record) {
    if (record["request"].get<bool>()) return kRequestStages;
    return kOperationStages;
  }
  // Below the number of things that one agent can have under way.
  static std::uint64_t tid(const Key& key, std::size_t lane) {
    constexpr std::uint64_t kLanesMax = 100'000;
    return (key.first * 2 + (key.second ? 1 : 0)) * kLanesMax + lane + 1;
  }

  void add_record(const Span& span, const ordered_json& record) {
    const Key key{record["agent"].get<std::uint64_t>(), record["request"].get<bool>()};
    const std::uint64_t thread = tid(key, lanes_[key].place(span));
    const std::string id = id_text(record["id"].get<std::uint64_t>());
    ordered_json args = {{"id", id},
                         {"pages", record["pages"]},
                         {"pages_ok", record["pages_ok"]},
                         {"bytes", record["bytes"]},
                         {"tenant", record["tenant"]},
                         {"result", record["status"]}};
    if (!key.second) args["peer"] = record["peer"];
    add(record["op"].get<std::string>(), key.second ? "request" : "operation", thread, span, args);
    const auto stages = stages_of(record);
    const auto stamps = stamps_of(record, stages.size());
    for (std::size_t i = 1; i < stages.size(); ++i) {
      add(stages[i], "stage", thread, {stamps[i - 1], stamps[i]}, {{"id", id}});
    }
  }

  void add(const std::string& what, const char* category, std::uint64_t thread, const Span& span,
           const ordered_json& args) {
    events_.push_back({{"name", what},
                       {"cat", category},
                       {"ph", "X"},
                       {"pid", pid_},
                       {"tid", thread},
                       {"ts", static_cast<double>(span.from_ns) / 1000},
                       {"dur", static_cast<double>(span.to_ns - span.from_ns) / 1000},
                       {"args", args}});
  }

  void name(const char* what, std::uint64_t thread, const std::string& value) {
    events_.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", pid_}, {"tid", thread}, {"args", {{"name", value}}}});
  }

  ordered_json& events_;
  std::uint64_t pid_ = 0;
  std::map<Key, Lanes> lanes_;
};

}  // namespace

ordered_json chrome_trace(const std::vector<ordered_json>& daemons) {
  ordered_json events = ordered_json::array();
  ordered_json sampling = ordered_json::array();
  Writer writer(events);
  for (const ordered_json& daemon : daemons) {
    writer.add_daemon(daemon);
    ordered_json entry = daemon;
    entry.erase("records");
    sampling.push_back(entry);
  }
  return {{"traceEvents", events},
          {"displayTimeUnit", "ns"},
          {"otherData", {{"clock", "CLOCK_MONOTONIC"}, {"daemons", sampling}}}};
}

}  // namespace simm::ctl
