// StatusReport: what the status page shows, as one JSON object: under "reports" the answers that
// `simmctl --json` gets to the commands in kParts, under "trouble" why there is none.
//
//   {"names": false, "reports": {"status": {...}, "totals": {...}, ...}, "trouble": {"slots":
//   "..."}}
//
// "drains" has what `simmctl moves` says of each daemon that the manager calls draining, by its
// full name: {"storage/a": {...}}.
//
// Without names no report names a tenant, a client or a key: reports that might are left out, or
// are asked for without them. What a report may be shown so is a row here; no row, no report.
//
// The text is made at most once in kKeptNs, whoever asks how often, and is shared by all who get
// it. The control thread waits for nobody: what another daemon has not answered within kPatienceNs
// is missing this time. Owned by the composition root. Thread: control.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/control/admin_source.h"
#include "daemon/control/deadline.h"
#include "daemon/metrics/metrics_endpoint.h"
#include "daemon/metrics/status_source.h"

namespace simm::control {

class StatusReport final : public StatusSource {
public:
  static constexpr base::TimeNs kKeptNs = base::kNsPerSecond;
  static constexpr base::TimeNs kPatienceNs = 800 * base::kNsPerMs;
  static constexpr std::size_t kNodesPagesMax = 16;  // of 512 daemons each
  static constexpr std::size_t kDrainsMax = 8;       // daemons that are asked how far they are

  // All outlive it.
  StatusReport(boost::asio::io_context& io, const base::Clock& clock, AdminSource& reports);

  // At set-up: it is shown at `metrics`, which outlives it, to those whom the configuration lets
  // read it; names to those with a token alone. The errors name the key and the remedy.
  Outcome serve(const base::Config& config, MetricsEndpoint& metrics);
  // What serve() does but for showing it. `names`: readers have shown a token.
  void choose_parts(bool names);

  void tell(std::function<void(Text)> answer) override;

private:
  struct Part {
    base::AdminCommand command;
    bool is_asked = false;           // and has not answered
    bool is_late = false;            // it has answered when nobody waited any more
    std::vector<std::string> texts;  // `nodes` has a page each, all others one text
    std::vector<std::string> pages;  // of an answer that is not complete
    std::string trouble;             // why there is no text
  };
  // Members that drain, by full name.
  struct Drains {
    std::set<std::string> asked;               // and have not answered
    std::map<std::string, std::string> texts;  // their answers to `moves`
    std::string trouble;                       // why one has none
  };

  void ask_all();
  void ask(Part& part, const std::string& behind);
  void on_answer(Part& part, Expected<std::string> text);
  void ask_drains(const std::vector<std::string>& nodes);
  void ask_drain(const std::string& name);
  void end_when_all_answered();
  void make();
  [[nodiscard]] std::string text() const;

  const base::Clock& clock_;
  AdminSource& reports_;
  bool names_ = false;
  Deadline patience_;
  std::vector<Part> parts_;
  Drains drains_;
  std::vector<std::function<void(Text)>> waiting_;
  bool is_under_way_ = false;
  Text kept_;
  base::TimeNs kept_until_ns_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
