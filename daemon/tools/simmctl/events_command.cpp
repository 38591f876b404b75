#include "daemon/tools/simmctl/events_command.h"

#include <cstdio>
#include <optional>
#include <utility>

#include "daemon/tools/simmctl/interrupts.h"
#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

constexpr double kLookSeconds = 0.2;

std::string event_text(const ordered_json& event) {
  std::string text = event.value("text", "");
  const auto left_out = event.value("left_out", std::uint64_t{0});
  if (left_out > 0) {
    text += " (before it, " + std::to_string(left_out) + " such events were left out)";
  }
  return text;
}

std::string line_of(const ordered_json& event) {
  return event.value("time", "") + " " + event.value("severity", "") + " " +
         event.value("kind", "") + " " + event.value("subject", "") + ": " + event_text(event) +
         "\n";
}

// Where a reader is in the events of a daemon, from one life of it to the next.
class EventReader {
public:
  EventReader(const AdminWishes& admin, const EventsWishes& wishes)
      : admin_(admin), kind_(wishes.kind), since_(wishes.since) {}

  // The next page. Reaches the daemon anew when the last question failed.
  Expected<ordered_json> next() {
    if (!client_) {
      auto reached = reach(admin_);
      if (!reached) return std::move(reached).error();
      client_.emplace(std::move(*reached));
    }
    auto page =
        ask_json(*client_, "events",
                 kind_.empty() ? std::to_string(since_) : std::to_string(since_) + " " + kind_);
    if (!page) {
      client_.reset();
      return page;
    }
    const std::string life = page->value("life", "");
    if (life != std::exchange(life_, life) && !is_first_) {
      has_restarted_ = true;
      // The page is about numbers of the life before.
      if (std::exchange(since_, 0) != 0) return next();
    }
    is_first_ = false;
    since_ = page->value("next", since_);
    return page;
  }
  // True once for each new life.
  [[nodiscard]] bool take_restarted() noexcept { return std::exchange(has_restarted_, false); }

private:
  const AdminWishes& admin_;
  const std::string kind_;
  std::uint64_t since_;
  std::string life_;
  bool is_first_ = true;
  bool has_restarted_ = false;
  std::optional<AdminClient> client_;
};

// What the page is, as lines, or as objects of which each has a line.
std::string lines_of(const ordered_json& page, bool has_restarted, bool json) {
  std::string lines;
  const auto missed = page.value("missed", std::uint64_t{0});
  if (has_restarted) {
    lines +=
        json ? ordered_json{{"restarted", true}}.dump() + "\n" : "-- the daemon has started anew\n";
  }
  if (missed > 0) {
    lines += json ? ordered_json{{"missed", missed}}.dump() + "\n"
                  : "-- " + std::to_string(missed) + " events are not there any more\n";
  }
  for (const ordered_json& event : page["events"]) {
    lines += json ? event.dump() + "\n" : line_of(event);
  }
  return lines;
}

int follow(EventReader& reader, ordered_json page, bool json) {
  bool has_restarted = false;
  bool is_there = true;
  while (true) {
    if (const int code = write_out(lines_of(page, has_restarted, json)); code != kDone) return code;
    if (page.value("is_last", true)) wait_for(kLookSeconds);
    while (true) {
      if (is_interrupted() || !has_reader()) return kDone;
      auto next = reader.next();
      if (next) {
        page = std::move(*next);
        has_restarted = reader.take_restarted();
        is_there = true;
        break;
      }
      if (std::exchange(is_there, false)) {
        std::fprintf(stderr, "simmctl: %s; waiting\n", next.error().context.c_str());
      }
      wait_for(kLookSeconds);
    }
  }
}

int show_all(EventReader& reader, ordered_json page, bool json) {
  std::uint64_t missed = page.value("missed", std::uint64_t{0});
  ordered_json all = std::move(page["events"]);
  while (!page.value("is_last", true)) {
    auto next = reader.next();
    if (!next) return failed(next.error());
    page = std::move(*next);
    missed += page.value("missed", std::uint64_t{0});
    for (ordered_json& event : page["events"]) all.push_back(std::move(event));
  }
  if (json) {
    return show({{"missed", missed}, {"next", page["next"]}, {"events", std::move(all)}}, true);
  }
  if (missed > 0) {
    const std::string gap = std::to_string(missed) + " events are not there any more\n";
    if (const int code = write_out(gap); code != kDone) return code;
  }
  for (ordered_json& event : all) {
    event["text"] = event_text(event);
    event.erase("left_out");
  }
  return show(all, false);
}

}  // namespace

int run_events(const AdminWishes& admin, const EventsWishes& wishes) {
  EventReader reader(admin, wishes);
  auto first = reader.next();
  if (!first) return failed(first.error());
  if (!wishes.follow) return show_all(reader, std::move(*first), admin.json);
  watch_interrupts();
  return follow(reader, std::move(*first), admin.json);
}

}  // namespace simm::ctl
