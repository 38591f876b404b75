// ManagerSurvey: asks each manager of a cluster what it is just now: whether it leads, for how
// long, with which map. Each is asked by a connection of its own, whose hello says that it wants a
// report. So those that stand by answer too. A survey ends within kSurveyNs, and says of who has
// not answered why. Who asks while one is under way gets the same answer.
// Owned by ClusterPresence, or by a manager's ManagerReports. Thread: control.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/control/admin_source.h"
#include "daemon/control/deadline.h"
#include "daemon/peers/cluster_access.h"

namespace simm::control {

class ManagerSurvey {
public:
  // A name that is looked up, connecting, the hello and the report.
  static constexpr base::TimeNs kSurveyNs = 2500 * base::kNsPerMs;

  explicit ManagerSurvey(ClusterAccess& access);
  ~ManagerSurvey();
  ManagerSurvey(const ManagerSurvey&) = delete;
  ManagerSurvey& operator=(const ManagerSurvey&) = delete;

  // `addresses`: as in cluster.manager. {"managers": [...]}: one object for each address, in the
  // order of the list. A manager may ask itself.
  void ask(const std::string& addresses, AdminAnswer answer);
  // Asks nobody any more. Who waits is answered with an error.
  void stop();

private:
  class Inquiry;

  void end_if_over();
  void end();
  void answer_all(const Expected<std::string>& text);

  ClusterAccess& access_;
  std::vector<std::unique_ptr<Inquiry>> inquiries_;  // of the survey that is under way
  std::vector<AdminAnswer> waiting_;
  Deadline deadline_;
};

}  // namespace simm::control
