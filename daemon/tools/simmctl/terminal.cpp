#include "daemon/tools/simmctl/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

constexpr const char* kEnter = "\033[?1049h\033[?25l";  // its own screen, no cursor
constexpr const char* kLeave = "\033[?25h\033[?1049l";
constexpr std::size_t kSideMax = 2000;

bool wants_no_colour() {
  const char* const said = std::getenv("NO_COLOR");
  return said != nullptr && *said != '\0';
}

}  // namespace

bool Terminal::is_there() {
  const char* const kind = std::getenv("TERM");
  const bool can_move = kind != nullptr && *kind != '\0' && std::strcmp(kind, "dumb") != 0;
  return can_move && ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDIN_FILENO) != 0;
}

Terminal::Terminal() : is_painted_(!wants_no_colour()) {
  ::tcgetattr(STDIN_FILENO, &before_);
  termios now = before_;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  now.c_cc[VMIN] = 1;
  now.c_cc[VTIME] = 0;
  now.c_cc[VSUSP] = _POSIX_VDISABLE;  // a shell would get a screen that is not its own
  ::tcsetattr(STDIN_FILENO, TCSANOW, &now);
  (void)write_out(kEnter);
}

Terminal::~Terminal() {
  (void)write_out(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

ScreenSize Terminal::size() {
  winsize said{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &said) != 0 || said.ws_col == 0 || said.ws_row == 0) {
    return {};
  }
  return {std::min<std::size_t>(said.ws_col, kSideMax),
          std::min<std::size_t>(said.ws_row, kSideMax)};
}

int Terminal::draw(const std::vector<Line>& lines, ScreenSize size, bool anew) {
  std::string out = anew ? "\033[2J\033[H" : "\033[H";
  for (std::size_t i = 0; i < lines.size() && i < size.rows; ++i) {
    // Wiped before it is written: behind the last column the cursor would wipe that column.
    out += (i > 0 ? "\r\n\033[K" : "\033[K") + text_of_line(lines[i], size.columns, is_painted_);
  }
  if (lines.size() < size.rows) out += "\r\n\033[J";
  return write_out(out);
}

bool Terminal::read_keys(std::string& keys) {
  std::array<char, 64> typed{};
  const ssize_t count = ::read(STDIN_FILENO, typed.data(), typed.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  constexpr std::array<std::pair<std::string_view, char>, 4> kSequences = {
      {{"\033[A", 'k'}, {"\033[B", 'j'}, {"\033[5~", 'b'}, {"\033[6~", ' '}}};
  std::string_view left(typed.data(), static_cast<std::size_t>(count));
  while (!left.empty()) {
    const auto* const known =
        std::find_if(kSequences.begin(), kSequences.end(),
                     [left](const auto& each) { return left.starts_with(each.first); });
    if (known != kSequences.end()) {
      keys += known->second;
      left.remove_prefix(known->first.size());
      continue;
    }
    if (left.front() == '\033') break;  // of a key that means nothing here
    keys += left.front();
    left.remove_prefix(1);
  }
  return true;
}

}  // namespace simm::ctl
