#include "daemon/tools/simmctl/key_events_command.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/base/wall_time.h"
#include "daemon/tools/simmctl/interrupts.h"
#include "daemon/tools/simmctl/key_runs.h"
#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

constexpr double kPauseSeconds = 0.02;          // when all is read
constexpr double kRunsPauseSeconds = 0.05;      // the same: programs want few turns
constexpr double kPresentPauseSeconds = 0.005;  // while present keys are on their way
constexpr const char* kKeyEventsCommand = "key_events";

volatile std::sig_atomic_t presents_wanted = 0;

void want_presents(int /*signal*/) {
  presents_wanted = 1;
}

// A page of the feed (daemon/admin/key_feed.h).
struct KeyPage {
  ordered_json head;
  std::string lines;
};

Expected<KeyPage> ask_page(AdminClient& client, const ordered_json& question) {
  auto text = client.ask(kKeyEventsCommand, question.dump());
  if (!text) return std::move(text).error();
  const std::size_t end = std::min(text->find('\n'), text->size());
  KeyPage page;
  page.head = ordered_json::parse(std::string_view(*text).substr(0, end), nullptr, false);
  if (!page.head.is_object()) return Error{Status::incompatible, "the answer is not understood"};
  page.lines = text->substr(std::min(end + 1, text->size()));
  return page;
}

// Where a reader is in the feed of a daemon, from one life of it to the next.
class KeyReader {
public:
  KeyReader(const AdminWishes& admin, const KeyEventsWishes& wishes)
      : admin_(admin), wishes_(wishes) {}

  // The next page. Reaches the daemon anew when the last question failed.
  Expected<KeyPage> next() {
    if (!client_) {
      auto reached = reach(admin_);
      if (!reached) return std::move(reached).error();
      client_.emplace(std::move(*reached));
    }
    auto page = ask_page(*client_, question());
    if (!page && page.status() == Status::not_found && subscriber_ != 0) {
      subscriber_ = 0;
      page = ask_page(*client_, question());
    }
    if (!page) {
      client_.reset();
      begins_ = wishes_.present;
      return page;
    }
    const bool is_new = subscriber_ == 0;
    const std::string life = page->head.value("life", "");
    const std::string last_life = std::exchange(life_, life);
    subscriber_ = page->head.value("subscriber", std::uint64_t{0});
    since_ = page->head.value("next", std::uint64_t{0});
    presents_ = page->head.value("presents", std::uint64_t{0});
    // A question that subscribes has asked for them, and no other one has by then.
    if (is_new) begins_ = false;
    if (wishes_.present && has_loss(*page)) begins_ = true;
    const bool is_complete = page->head.value("is_complete", false) && !begins_;
    page->head["completes"] = is_complete && !std::exchange(is_complete_, is_complete);
    is_complete_ = is_complete;
    page->head["begins"] = is_new && last_life.empty();
    page->head["restarted"] = !last_life.empty() && life != last_life;
    page->head["lapsed"] = is_new && life == last_life;
    return page;
  }

  // The keys that are there are told again.
  void begin_presents() {
    begins_ = true;
    is_complete_ = false;
  }
  // Something is on its way that is worth to ask for soon.
  [[nodiscard]] bool is_busy() const noexcept { return wishes_.present && !is_complete_; }

  void leave() {
    if (!client_ || subscriber_ == 0) return;
    // Else it is forgotten after some seconds.
    (void)client_->ask(kKeyEventsCommand,
                       ordered_json{{"subscriber", subscriber_}, {"end", true}}.dump());
  }

private:
  // Present keys of before are worth nothing: what has left since is not known.
  static bool has_loss(const KeyPage& page) {
    return page.head.value("missed", std::uint64_t{0}) > 0 ||
           page.lines.find(" gap ") != std::string::npos;
  }

  [[nodiscard]] ordered_json question() {
    ordered_json question = ordered_json::object();
    if (subscriber_ != 0) {
      question = {{"subscriber", subscriber_}, {"since", since_}, {"presents", presents_}};
      if (begins_) question["begin"] = true;
      begins_ = false;
      return question;
    }
    if (wishes_.present) question["begin"] = true;
    if (wishes_.tenant) question["tenant"] = *wishes_.tenant;
    if (wishes_.name_space) question["namespace"] = *wishes_.name_space;
    return question;
  }

  const AdminWishes& admin_;
  const KeyEventsWishes& wishes_;
  std::optional<AdminClient> client_;
  std::uint64_t subscriber_ = 0;  // 0: has to subscribe
  std::uint64_t since_ = 0;
  std::uint64_t presents_ = 0;
  bool begins_ = false;  // the next question asks for the present keys from the first one on
  bool is_complete_ = false;
  std::string life_;
};

// Takes the word up to the next space off the line.
std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

std::uint64_t number_of(std::string_view word) {
  std::uint64_t number = 0;
  (void)std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

std::string name_of(const ordered_json& names, std::string_view id) {
  const auto found = names.find(std::string(id));
  return found == names.end() ? "#" + std::string(id) : found->get<std::string>();
}

std::string gap_text(const ordered_json& count, bool json) {
  if (json) return ordered_json{{"gap", count}}.dump() + "\n";
  const std::string many = count.is_null() ? "events" : count.dump() + " events";
  return "-- " + many + " are lost: what was known of keys is not certain any more\n";
}

std::string line_text(std::string_view line, const ordered_json& head, bool json) {
  const std::string_view sequence = take_word(line);
  const std::string time = base::wall_time_text(number_of(take_word(line)));
  const std::string kind(take_word(line));
  const std::string hash(take_word(line));
  const std::uint64_t bytes = number_of(take_word(line));
  if (kind == "gap") return gap_text(bytes, json);
  const std::string tenant = name_of(head["tenants"], take_word(line));
  const std::string name_space = name_of(head["name_spaces"], take_word(line));
  if (json) {
    return ordered_json{{"sequence", number_of(sequence)},
                        {"time", time},
                        {"kind", kind},
                        {"key_hash", hash},
                        {"tenant", tenant},
                        {"namespace", name_space},
                        {"bytes", bytes}}
               .dump() +
           "\n";
  }
  return time + " " + kind + " " + hash + " " + tenant + " " + name_space + " " +
         std::to_string(bytes) + "\n";
}

constexpr const char* kCleared = "cleared";  // what was known of keys is not certain any more

void add_runs(KeyRuns& runs, const KeyPage& page) {
  for (const char* const why : {"begins", "restarted", "lapsed"}) {
    if (page.head.value(why, false)) runs.say(kCleared);
  }
  if (page.head.value("missed", std::uint64_t{0}) > 0) runs.say(kCleared);
  std::string_view rest = page.lines;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    take_word(line);
    take_word(line);
    const std::string_view kind = take_word(line);
    const std::string_view hash = take_word(line);
    if (kind == "gap") {
      runs.say(kCleared);
    } else {
      runs.add(kind == "stored" || kind == "present", hash);
    }
  }
  if (page.head.value("completes", false)) runs.say("complete");
}

std::string lines_of(const KeyPage& page, bool json) {
  std::string text;
  if (page.head.value("begins", false)) {
    text += json ? ordered_json{{"following", true}}.dump() + "\n" : "-- following\n";
  }
  if (page.head.value("restarted", false)) {
    text += json ? ordered_json{{"restarted", true}}.dump() + "\n"
                 : "-- the daemon has started anew: what was known of keys is not certain any "
                   "more\n";
  }
  if (page.head.value("lapsed", false)) text += gap_text(nullptr, json);
  const auto missed = page.head.value("missed", std::uint64_t{0});
  if (missed > 0) text += gap_text(missed, json);
  std::string_view rest = page.lines;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    text += line_text(rest.substr(0, end), page.head, json);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (page.head.value("completes", false)) {
    text += json ? ordered_json{{"complete", true}}.dump() + "\n"
                 : "-- all keys that were there have been told\n";
  }
  return text;
}

}  // namespace

int run_key_events(const AdminWishes& admin, const KeyEventsWishes& wishes) {
  KeyReader reader(admin, wishes);
  auto page = reader.next();
  if (!page) return failed(page.error());
  watch_interrupts();
  if (wishes.present) std::signal(SIGUSR1, want_presents);
  bool is_there = true;
  KeyRuns runs;
  while (true) {
    if (page) {
      if (wishes.runs) add_runs(runs, *page);
      const int code = write_out(wishes.runs ? runs.take() : lines_of(*page, admin.json));
      if (code != kDone) return code;
      is_there = true;
    } else if (page.status() == Status::invalid_state) {
      return failed(page.error());
    } else if (std::exchange(is_there, false)) {
      std::fprintf(stderr, "simmctl: %s; waiting\n", page.error().context.c_str());
      std::string text = admin.json ? ordered_json{{"away", true}}.dump() + "\n" : "";
      if (wishes.runs) text = std::string(kCleared) + "\n";
      const int code = text.empty() ? kDone : write_out(text);
      if (code != kDone) return code;
    }
    if (!page || page->head.value("is_last", true)) {
      const double pause = reader.is_busy() ? kPresentPauseSeconds
                           : wishes.runs    ? kRunsPauseSeconds
                                            : kPauseSeconds;
      wait_for(is_there ? pause : 0.2);
    }
    if (std::exchange(presents_wanted, 0) != 0) reader.begin_presents();
    if (is_interrupted() || !has_reader()) {
      reader.leave();
      return kDone;
    }
    page = reader.next();
  }
}

}  // namespace simm::ctl
