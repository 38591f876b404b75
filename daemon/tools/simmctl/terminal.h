// Terminal: the terminal that simmctl runs in, while `simmctl top` owns it: another screen than the
// shell's, keys one by one, no echo. Given back as it was when this ends.
// Thread: the main thread.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "daemon/tools/simmctl/screen.h"

namespace simm::ctl {

class Terminal {
public:
  // Both ends are a terminal that knows how to move its cursor ($TERM).
  static bool is_there();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // 80 by 24 where nobody knows.
  [[nodiscard]] static ScreenSize size();
  // Returns the exit code; `anew` wipes what is there, as after another size.
  [[nodiscard]] int draw(const std::vector<Line>& lines, ScreenSize size, bool anew);
  // What was typed; arrows and page keys are j, k, space and b. False: nobody can type any more.
  [[nodiscard]] bool read_keys(std::string& keys);

private:
  termios before_{};
  const bool is_painted_;
};

}  // namespace simm::ctl
