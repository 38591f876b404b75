#include "daemon/tools/simmctl/top_command.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "daemon/tools/simmctl/interrupts.h"
#include "daemon/tools/simmctl/load.h"
#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;
using Seconds = std::chrono::duration<double>;

std::string title_of(const ordered_json& status) {
  return "simmd " + status.value("role", "?") + ", pid " + std::to_string(status.value("pid", 0)) +
         ", up " + std::to_string(status.value("uptime_ms", std::uint64_t{0}) / 1000) +
         " s, version " + status.value("version", "?") + "\n";
}

// A daemon without data agents has no tenants.
ordered_json tenants_of(const std::function<Expected<ordered_json>(const std::string&)>& ask) {
  auto tenants = ask("tenants");
  return tenants ? std::move(*tenants) : ordered_json::array();
}

}  // namespace

int run_top(const TopWishes& wishes,
            const std::function<Expected<ordered_json>(const std::string&)>& ask) {
  constexpr const char* kHome = "\033[H\033[J";
  const bool on_terminal = !wishes.json && ::isatty(STDOUT_FILENO) != 0;
  watch_interrupts();
  auto stats = ask("stats");
  if (!stats) return failed(stats.error());
  Load before = load_of(*stats);
  ordered_json tenants_before = tenants_of(ask);
  auto since = std::chrono::steady_clock::now();
  for (std::uint32_t shown = 0; wishes.count == 0 || shown < wishes.count; ++shown) {
    sleep_for(wishes.interval_s);
    if (is_interrupted()) break;
    const auto status = ask("status");
    if (!status) return failed(status.error());
    stats = ask("stats");
    if (!stats) return failed(stats.error());
    const auto now = std::chrono::steady_clock::now();
    const Load after = load_of(*stats);
    const double seconds = Seconds(now - since).count();
    ordered_json rates = rates_of(before, after, seconds);
    ordered_json tenants = tenants_of(ask);
    rates["tenants"] = tenant_rates_of(tenants_before, tenants, seconds);
    std::string text = wishes.json ? rates.dump() + "\n" : title_of(*status) + text_of(rates);
    if (on_terminal) text = kHome + text;
    if (!on_terminal && !wishes.json && shown > 0) text = "\n" + text;
    if (const int code = write_out(text); code != kDone) return code;
    before = after;
    tenants_before = std::move(tenants);
    since = now;
  }
  return kDone;
}

}  // namespace simm::ctl
