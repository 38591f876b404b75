#include "daemon/tools/simmctl/top_command.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "daemon/tools/simmctl/interrupts.h"
#include "daemon/tools/simmctl/output.h"
#include "daemon/tools/simmctl/terminal.h"
#include "daemon/tools/simmctl/top_source.h"
#include "daemon/tools/simmctl/top_view.h"

namespace simm::ctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStreamColumns = 120;
constexpr double kFirstSeconds = 0.5;        // on a terminal, until there are first rates
constexpr std::uint32_t kPatienceMs = 1000;  // of keys, while the daemon does not answer

// One run of the command.
class Top {
public:
  Top(const TopWishes& wishes, const AdminWishes& admin)
      : wishes_(wishes),
        is_json_(admin.json),
        source_(admin, wishes.of_cluster),
        view_(wishes.sort) {}

  int run(const AdminWishes& admin) {
    watch_interrupts();
    auto first = source_.look();
    if (!first) return failed(first.error());
    look_ = std::move(*first);
    if (!is_json_ && Terminal::is_there()) {
      terminal_.emplace();
      source_.set_timeout_ms(std::min(admin.timeout_ms, kPatienceMs));
      if (const int code = draw(true); code != kDone) return code;
    }
    for (std::uint32_t shown = 0; wishes_.count == 0 || shown < wishes_.count;) {
      const bool is_first = terminal_ && shown == 0;
      if (!wait(is_first ? std::min(kFirstSeconds, wishes_.interval_s) : wishes_.interval_s)) break;
      auto next = source_.look();
      if (!next) {
        if (wishes_.count != 0) return given_up(next.error());
        if (const int code = say_away(next.error()); code != kDone) return code;
        continue;
      }
      is_away_ = false;
      view_.set_trouble("");
      look_ = std::move(*next);
      if (const int code = show(shown++ > 0); code != kDone) return code;
    }
    return code_;
  }

private:
  // False: it is time to end.
  bool wait(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      const double left_s = std::chrono::duration<double>(end - Clock::now()).count();
      switch (wait_for(std::max(left_s, 0.0), terminal_ ? STDIN_FILENO : -1)) {
        case Woken::time:
          return true;
        case Woken::interrupted:
        case Woken::reader_gone:
          return false;
        case Woken::resized:
          if (terminal_ && !is_drawn(true)) return false;
          break;
        case Woken::input:
          if (!take_keys()) return false;
          break;
      }
    }
  }

  // False: the user wants no more.
  bool take_keys() {
    std::string keys;
    if (!terminal_->read_keys(keys)) return false;
    bool has_changed = false;
    for (const char key : keys) {
      if (key == 'q' || key == 'Q') return false;
      has_changed = view_.on_key(key, Terminal::size()) || has_changed;
    }
    return !has_changed || is_drawn(false);
  }

  bool is_drawn(bool anew) {
    code_ = draw(anew);
    return code_ == kDone;
  }

  int draw(bool anew) {
    const ScreenSize size = Terminal::size();
    return terminal_->draw(view_.screen(look_, size), size, anew);
  }

  int show(bool has_shown) {
    if (terminal_) return draw(false);
    if (is_json_) {
      return write_out(look_.dump(-1, ' ', false, TopLook::error_handler_t::replace) + "\n");
    }
    std::string text = has_shown ? "\n" : "";
    for (const Line& line : view_.lines(look_, kStreamColumns)) {
      text += text_of_line(line, kStreamColumns, false) + "\n";
    }
    return write_out(text);
  }

  int say_away(const Error& error) {
    if (terminal_) {
      view_.set_trouble(error.context);
      return draw(false);
    }
    if (!std::exchange(is_away_, true)) {
      std::fprintf(stderr, "simmctl: %s; waiting\n", error.context.c_str());
    }
    return kDone;
  }

  // The terminal first, so that the words are on the shell's screen.
  int given_up(const Error& error) {
    terminal_.reset();
    return failed(error);
  }

  const TopWishes& wishes_;
  const bool is_json_;
  TopSource source_;
  TopView view_;
  TopLook look_;
  std::optional<Terminal> terminal_;
  bool is_away_ = false;
  int code_ = kDone;
};

}  // namespace

int run_top(const TopWishes& wishes, const AdminWishes& admin) {
  return Top(wishes, admin).run(admin);
}

}  // namespace simm::ctl
