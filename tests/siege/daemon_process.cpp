#include "tests/siege/daemon_process.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

namespace simm::siege {

namespace {

constexpr const char* kTwoTenants = R"(
  "sockets": [{"path": "$DIR/red.sock", "tenant": "red", "mode": "0666"},
              {"path": "$DIR/blue.sock", "tenant": "blue", "mode": "0666"}],
  "tenants": [{"name": "red"}, {"name": "blue"}])";

}  // namespace

DaemonProcess::DaemonProcess() : process_(kTwoTenants) {
  if (!process_.start()) FAIL(process_.log());
}

bool DaemonProcess::alive() const {
  siginfo_t ended{};
  const auto pid = static_cast<id_t>(process_.pid());
  return ::waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

nlohmann::json DaemonProcess::report(const std::string& command) const {
  return nlohmann::json::parse(process_.ask(command));
}

std::size_t DaemonProcess::sessions_settled_to(std::size_t wanted) const {
  std::size_t open = 0;
  for (int tries = 0; tries < 500; ++tries) {
    open = report("status")["sessions"].get<std::size_t>();
    if (open <= wanted) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return open;
}

}  // namespace simm::siege
