#include "daemon/tools/simmctl/drain_command.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "daemon/tools/simmctl/interrupts.h"
#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kDrainMsMax = 24 * 3'600'000;
constexpr double kLookS = 0.2;
constexpr int kLooksPerLine = 10;  // where lines are not written over each other
// A manager that is restarted, or hands over to another one, is back long before.
constexpr std::chrono::seconds kAnswerless{60};

struct Unit {
  std::string_view name;
  std::uint64_t ms;
};
constexpr std::array kUnits = {Unit{"", 1000}, Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000},
                               Unit{"h", 3'600'000}};

std::string progress_of(const ordered_json& moves) {
  const auto number = [&](const char* name) { return moves.value(name, std::uint64_t{0}); };
  std::string text = moves.value("daemon", "?") + " " + moves.value("state", "?") + ": " +
                     std::to_string(number("slots")) + " slots, " +
                     std::to_string(number("left_objects")) + " objects, " +
                     std::to_string(number("left_bytes")) + " bytes left, " +
                     std::to_string(number("bytes_per_s")) + " bytes/s";
  const ordered_json eta = moves.value("eta_ms", ordered_json());
  if (eta.is_number()) text += ", " + std::to_string(eta.get<std::uint64_t>() / 1000) + " s to go";
  return text;
}

int ended(const ordered_json& moves, bool json) {
  const std::string state = moves.value("state", "?");
  const int shown = show(moves, json);
  if (shown != kDone || state == "drained") return shown;
  if (state == "cut short") {
    return failed({Status::timeout,
                   "the deadline is over: " + std::to_string(moves.value("lost_objects", 0ULL)) +
                       " objects of " + std::to_string(moves.value("lost_bytes", 0ULL)) +
                       " bytes were left behind, they are misses now"});
  }
  return failed({Status::invalid_state, "the drain was cancelled"});
}

// The drain goes on without a manager; only nobody can tell how far it is. And a manager that has
// just begun does not know the daemon yet.
bool may_answer_soon(Status status) noexcept {
  return status == Status::unreachable || status == Status::timeout || status == Status::not_found;
}

int wait_for_end(AdminClient& client, const DrainWishes& wishes, bool json) {
  using Clock = std::chrono::steady_clock;
  watch_interrupts();
  const bool on_terminal = !json && ::isatty(STDERR_FILENO) != 0;
  Clock::time_point answered = Clock::now();
  for (int look = 0; !is_interrupted(); ++look) {
    const auto moves = ask_json(client, "moves", wishes.daemon);
    if (!moves) {
      const bool is_late = Clock::now() - answered >= kAnswerless;
      if (is_late || !may_answer_soon(moves.status())) return failed(moves.error());
      if (wait_for(kLookS) == Woken::reader_gone) break;
      continue;
    }
    answered = Clock::now();
    const std::string state = moves->value("state", "?");
    if (state != "draining") {
      if (on_terminal) std::fputs("\r\033[K", stderr);
      return ended(*moves, json);
    }
    if (on_terminal) {
      std::fprintf(stderr, "\r\033[K%s", progress_of(*moves).c_str());
    } else if (!json && look % kLooksPerLine == 0) {
      std::fprintf(stderr, "%s\n", progress_of(*moves).c_str());
    }
    if (wait_for(kLookS) == Woken::reader_gone) break;
  }
  return failed(
      {Status::invalid_state, "interrupted: the drain goes on; `simmctl drain --cancel` ends it"});
}

}  // namespace

std::optional<std::uint32_t> duration_ms(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc()) return std::nullopt;
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  for (const Unit& known : kUnits) {
    if (known.name != unit) continue;
    if (number == 0 || number > kDrainMsMax / known.ms) return std::nullopt;
    return static_cast<std::uint32_t>(number * known.ms);
  }
  return std::nullopt;
}

int run_drain(const AdminWishes& admin, const DrainWishes& wishes) {
  ordered_json argument = {{"daemon", wishes.daemon}};
  if (wishes.cancel) argument["cancel"] = true;
  if (wishes.force) argument["force"] = true;
  if (!wishes.deadline.empty()) {
    const auto deadline_ms = duration_ms(wishes.deadline);
    if (!deadline_ms) {
      return failed({Status::invalid_argument,
                     "--deadline " + wishes.deadline +
                         ": write a number above 0 and ms, s, m or h, for instance 90s; a day at "
                         "most"});
    }
    argument["deadline_ms"] = *deadline_ms;
  }
  auto client = reach(admin);
  if (!client) return failed(client.error());
  const auto begun = ask_json(*client, "drain", argument.dump());
  if (!begun) {
    // That is no miss.
    const bool is_unknown = begun.status() == Status::not_found;
    return failed({is_unknown ? Status::unreachable : begun.status(), begun.error().context});
  }
  if (!wishes.wait) return show(*begun, admin.json);
  return wait_for_end(*client, wishes, admin.json);
}

}  // namespace simm::ctl
