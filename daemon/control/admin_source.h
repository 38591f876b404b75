// AdminSource: what a daemon has to say to simmctl, behind the AdminServer. Seam: daemons with data
// agents and the manager answer different commands, and some answers come from another daemon.
// Thread: control.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "simm/expected.h"

namespace simm::control {

// A JSON text, or why there is none.
using AdminAnswer = std::function<void(Expected<std::string>)>;

class AdminSource {
public:
  virtual ~AdminSource() = default;
  // Calls `answer` once: in here, or within some seconds. invalid_argument: no such command; the
  // context names those that there are.
  virtual void report(std::string_view command, std::string_view argument, AdminAnswer answer) = 0;
};

}  // namespace simm::control
