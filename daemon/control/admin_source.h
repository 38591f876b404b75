// AdminSource: what a daemon has to say to simmctl, behind the AdminServer. Seam: daemons with data
// agents and the manager answer different commands, and some answers come from another daemon.
// Thread: control.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "daemon/base/admin_commands.h"
#include "simm/expected.h"

namespace simm::control {

// A JSON text, or why there is none.
using AdminAnswer = std::function<void(Expected<std::string>)>;

class AdminSource {
public:
  virtual ~AdminSource() = default;
  [[nodiscard]] virtual base::AdminScope scope() const noexcept = 0;
  // Calls `answer` once: in here, or within some seconds. `command` is one that this scope answers.
  virtual void report(base::AdminCommand command, std::string_view argument,
                      AdminAnswer answer) = 0;
  // For readers who have shown no token: the answer to `status` or `events`, without the names of
  // tenants, clients and keys. invalid_argument: of other commands there is no such answer.
  [[nodiscard]] virtual Expected<std::string> report_without_names(base::AdminCommand command,
                                                                   std::string_view argument) = 0;
};

}  // namespace simm::control
