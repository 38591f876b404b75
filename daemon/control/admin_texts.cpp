#include "daemon/control/admin_texts.h"

#include <nlohmann/json.hpp>

namespace simm::control {
namespace {

using nlohmann::ordered_json;

}  // namespace

std::string stats_text(const base::CounterSet& counters, std::string_view prefix) {
  ordered_json all = ordered_json::object();
  for (const auto& [name, value] : counters.snapshot()) {
    if (name.compare(0, prefix.size(), prefix) == 0) all[name] = value;
  }
  return all.dump();
}

std::string errors_text(const base::ErrorLog& errors, base::TimeNs now_ns) {
  ordered_json all = ordered_json::array();
  for (const base::ErrorEntry& entry : errors.entries()) {
    all.push_back({{"site", entry.site},
                   {"status", status_name(entry.status)},
                   {"text", entry.text},
                   {"count", entry.count},
                   {"first_ms_ago", (now_ns - entry.first_ns) / base::kNsPerMs},
                   {"last_ms_ago", (now_ns - entry.last_ns) / base::kNsPerMs}});
  }
  return ordered_json{{"errors", all}, {"dropped", errors.dropped()}}.dump();
}

Error unknown_command(std::string_view known) {
  return {Status::invalid_argument, "unknown command; known: " + std::string(known)};
}

}  // namespace simm::control
