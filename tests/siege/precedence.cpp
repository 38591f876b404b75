#include "tests/siege/precedence.h"

#include <sched.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace simm::siege {
namespace {

bool put_first(pid_t thread, int place) {
  sched_param wanted{};
  wanted.sched_priority = place;
  return ::sched_setscheduler(thread, SCHED_RR | SCHED_RESET_ON_FORK, &wanted) == 0;
}

bool is_data_agent(const std::filesystem::path& thread) {
  std::ifstream file(thread / "comm");
  std::string name;
  return std::getline(file, name) && name.rfind("simm-data", 0) == 0;
}

}  // namespace

bool take_precedence(const std::vector<pid_t>& daemons) {
  for (const pid_t daemon : daemons) {
    const std::filesystem::path threads("/proc/" + std::to_string(daemon) + "/task");
    for (const auto& thread : std::filesystem::directory_iterator(threads)) {
      if (!is_data_agent(thread)) continue;
      if (!put_first(std::stoi(thread.path().filename().string()), 1)) return false;
    }
  }
  return put_first(0, 2);
}

void stand_back() {
  constexpr int kLast = 19;
  (void)::setpriority(PRIO_PROCESS, 0, kLast);  // of a thread, in Linux
}

}  // namespace simm::siege
