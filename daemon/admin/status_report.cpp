#include "daemon/admin/status_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_text.h"

namespace simm::control {
namespace {

using base::AdminCommand;

// How a report is kept without names of tenants, clients and keys.
enum class Without : std::uint8_t {
  nothing,  // it has none
  names,    // AdminSource leaves them out
  it,       // by not being shown
};

struct PartRow {
  AdminCommand command;
  Without without;
};

constexpr std::array kParts = {
    PartRow{AdminCommand::status, Without::names},
    PartRow{AdminCommand::totals, Without::nothing},
    PartRow{AdminCommand::nodes, Without::nothing},
    PartRow{AdminCommand::slots, Without::nothing},
    PartRow{AdminCommand::peers, Without::nothing},
    PartRow{AdminCommand::moves, Without::nothing},
    PartRow{AdminCommand::hot, Without::names},
    PartRow{AdminCommand::nics, Without::nothing},
    PartRow{AdminCommand::gpus, Without::nothing},
    PartRow{AdminCommand::events, Without::names},
    PartRow{AdminCommand::tenants, Without::it},
    PartRow{AdminCommand::store_tenants, Without::it},
    PartRow{AdminCommand::errors, Without::it},
};

// The newest ones. Without names there are fewer among them that may be told.
constexpr std::string_view kEvents = "-100";
constexpr std::string_view kEventsWithoutNames = "-250";

Without without_of(AdminCommand command) {
  return std::find_if(kParts.begin(), kParts.end(),
                      [command](const PartRow& row) { return row.command == command; })
      ->without;
}

// Of a page of nodes the name behind which the next page begins; empty: it is the last one. What is
// said of the cluster stands before the nodes, which are not looked at.
std::string next_of(const std::string& page) {
  const std::string head = page.substr(0, page.find(",\"nodes\":")) + "}";
  const auto parsed = nlohmann::json::parse(head, nullptr, false);
  if (!parsed.is_object()) return {};
  const auto next = parsed.find("next");
  return next != parsed.end() && next->is_string() ? next->get<std::string>() : std::string();
}

// The full names of members that drain, by pages of nodes. They are seldom: pages without any are
// not parsed. A quote in a name is escaped, so no name can look like a state.
std::vector<std::string> draining_of(const std::vector<std::string>& pages, std::size_t max) {
  std::vector<std::string> names;
  for (const std::string& page : pages) {
    if (page.find(R"("state":"draining")") == std::string::npos) continue;
    const auto parsed = nlohmann::json::parse(page, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("nodes")) continue;
    for (const auto& node : parsed["nodes"]) {
      if (names.size() == max) return names;
      if (!node.is_object() || node.value("state", "") != "draining") continue;
      names.push_back(node.value("role", "") + "/" + node.value("name", ""));
    }
  }
  return names;
}

std::string no_answer_text() {
  return "no answer within " + std::to_string(StatusReport::kPatienceNs / base::kNsPerMs) + " ms";
}

}  // namespace

StatusReport::StatusReport(boost::asio::io_context& io, const base::Clock& clock,
                           AdminSource& reports)
    : clock_(clock), reports_(reports), patience_(io) {}

Outcome StatusReport::serve(const base::Config& config, MetricsEndpoint& metrics) {
  auto rules = ReaderRules::make(config);
  if (!rules) return std::move(rules).error();
  choose_parts(rules->asks_for_token());
  metrics.show_status(std::move(*rules), *this);
  return Done{};
}

void StatusReport::choose_parts(bool names) {
  names_ = names;
  for (const PartRow& row : kParts) {
    const bool is_shown = names || row.without != Without::it;
    if (is_shown && base::answers(base::row_of(row.command), reports_.scope())) {
      parts_.push_back({.command = row.command, .texts = {}, .pages = {}, .trouble = {}});
    }
  }
}

void StatusReport::tell(std::function<void(Text)> answer) {
  if (kept_ != nullptr && clock_.now_ns() < kept_until_ns_) return answer(kept_);
  waiting_.push_back(std::move(answer));
  if (!is_under_way_) ask_all();
}

void StatusReport::ask_all() {
  is_under_way_ = true;
  patience_.after(kPatienceNs, [this] { make(); });
  std::vector<Part*> asked;
  for (Part& part : parts_) {
    // Whoever answers slowly is not asked again and again: what came too late is shown now.
    if (part.is_asked || std::exchange(part.is_late, false)) continue;
    part = {.command = part.command, .is_asked = true, .texts = {}, .pages = {}, .trouble = {}};
    asked.push_back(&part);
  }
  // All of them were marked before, so the last answer makes the text, whatever comes at once.
  for (Part* const part : asked) ask(*part, {});
}

void StatusReport::ask(Part& part, const std::string& behind) {
  const auto answer = [this, &part,
                       alive = std::weak_ptr<bool>(alive_)](Expected<std::string> text) {
    if (!alive.expired()) on_answer(part, std::move(text));
  };
  std::string argument;
  if (part.command == AdminCommand::nodes) argument = "+" + behind;
  if (part.command == AdminCommand::events) argument = names_ ? kEvents : kEventsWithoutNames;
  if (!names_ && without_of(part.command) == Without::names) {
    return answer(reports_.report_without_names(part.command, argument));
  }
  reports_.report(part.command, argument, answer);
}

void StatusReport::on_answer(Part& part, Expected<std::string> text) {
  const bool has_pages = part.command == AdminCommand::nodes;
  if (text) {
    const std::string next = has_pages ? next_of(*text) : std::string();
    part.pages.push_back(std::move(*text));
    if (!next.empty() && part.pages.size() < kNodesPagesMax) return ask(part, next);
    part.texts = std::move(part.pages);
  } else {
    part.trouble = text.error().context;
  }
  part.is_asked = false;
  part.is_late = !is_under_way_;
  if (has_pages) ask_drains(part.texts);
  end_when_all_answered();
}

// A manager has no connection to ask them by.
void StatusReport::ask_drains(const std::vector<std::string>& nodes) {
  if (!base::answers(base::row_of(AdminCommand::moves), reports_.scope())) return;
  drains_.texts.clear();
  drains_.trouble.clear();
  std::vector<std::string> names = draining_of(nodes, kDrainsMax);
  // Who is silent has one question.
  const auto is_asked = [this](const std::string& name) { return drains_.asked.count(name) > 0; };
  names.erase(std::remove_if(names.begin(), names.end(), is_asked), names.end());
  drains_.asked.insert(names.begin(), names.end());
  for (const std::string& name : names) ask_drain(name);
}

void StatusReport::ask_drain(const std::string& name) {
  const auto answer = [this, name,
                       alive = std::weak_ptr<bool>(alive_)](const Expected<std::string>& text) {
    if (alive.expired()) return;
    drains_.asked.erase(name);
    if (text) {
      drains_.texts[name] = *text;
    } else {
      drains_.trouble = name + ": " + text.error().context;
    }
    end_when_all_answered();
  };
  reports_.report(AdminCommand::moves, name, answer);
}

void StatusReport::end_when_all_answered() {
  const bool is_asked =
      !drains_.asked.empty() ||
      std::any_of(parts_.begin(), parts_.end(), [](const Part& each) { return each.is_asked; });
  if (is_under_way_ && !is_asked) make();
}

void StatusReport::make() {
  patience_.cancel();
  is_under_way_ = false;
  kept_ = std::make_shared<const std::string>(text());
  kept_until_ns_ = clock_.now_ns() + kKeptNs;
  for (const auto& answer : std::exchange(waiting_, {})) answer(kept_);
}

// The reports are JSON already: only their names are added.
std::string StatusReport::text() const {
  std::string reports;
  nlohmann::ordered_json trouble = nlohmann::ordered_json::object();
  for (const Part& part : parts_) {
    const std::string name(base::row_of(part.command).name);
    if (part.is_asked) {
      trouble[name] = no_answer_text();
    } else if (!part.trouble.empty()) {
      trouble[name] = part.trouble;
    } else {
      const bool has_pages = part.command == AdminCommand::nodes;
      reports += (reports.empty() ? "\"" : ",\"") + name + (has_pages ? "\":[" : "\":");
      for (std::size_t i = 0; i < part.texts.size(); ++i) {
        if (i > 0) reports += ',';
        reports += part.texts[i];
      }
      if (has_pages) reports += ']';
    }
  }
  if (!drains_.texts.empty()) {
    std::string drains;
    for (const auto& [name, moves] : drains_.texts) {
      drains +=
          (drains.empty() ? "" : ",") + base::json_text(nlohmann::ordered_json(name)) + ":" + moves;
    }
    reports += std::string(reports.empty() ? "" : ",") + "\"drains\":{" + drains + "}";
  }
  if (!drains_.asked.empty()) {
    trouble["drains"] = *drains_.asked.begin() + ": " + no_answer_text();
  } else if (!drains_.trouble.empty()) {
    trouble["drains"] = drains_.trouble;
  }
  return std::string("{\"names\":") + (names_ ? "true" : "false") + ",\"reports\":{" + reports +
         "},\"trouble\":" + base::json_text(trouble) + "}";
}

}  // namespace simm::control
