// AdminReports: what the daemon tells about itself, as JSON texts. Commands: status, sessions,
// regions, stats, errors. Names of clients are sanitised; keys do not appear.
// Thread: control.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/control/attach_server.h"
#include "daemon/control/environment.h"

namespace simm::control {

class AdminReports {
public:
  AdminReports(Environment& environment, const AttachServer& server, std::string role,
               std::uint64_t pool_bytes);

  // Nothing: there is no such command. `argument`: a prefix of names for stats, else unused.
  [[nodiscard]] std::optional<std::string> report(std::string_view command,
                                                  std::string_view argument) const;

  static constexpr std::string_view kCommands = "status, sessions, regions, stats, errors";

private:
  [[nodiscard]] std::string status() const;
  [[nodiscard]] std::string sessions() const;
  [[nodiscard]] std::string regions() const;
  [[nodiscard]] std::string stats(std::string_view prefix) const;
  [[nodiscard]] std::string errors() const;

  Environment& environment_;
  const AttachServer& server_;
  const std::string role_;
  const std::uint64_t pool_bytes_;
  const base::TimeNs started_ns_;
};

}  // namespace simm::control
