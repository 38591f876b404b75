// DaemonProcess: a real simmd in a directory of its own, stopped and swept away in the end.
// Thread: the test's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ipc/fd.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"

namespace simm::test_support {

class DaemonProcess {
public:
  // Makes the directory and the configuration; `keys` are JSON members merged into the default test
  // configuration ("\"drain_ms\": 100"); "$DIR" in them stands for the directory. `role`: the
  // subcommand.
  explicit DaemonProcess(const std::string& keys = "", std::string role = "all");
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // A listening socket to hand over, as a service manager would.
  void inherit(int listening_fd, const std::string& name) {
    inherited_.push_back({listening_fd, name});
  }
  // From now on its service manager keeps files for it: what it gives comes back with each start.
  void keep_files() { environment_["FDSTORE"] = "8"; }
  [[nodiscard]] std::size_t kept_files() const noexcept { return kept_.size(); }
  void set_environment(const std::string& name, const std::string& value) {
    environment_[name] = value;
  }

  // The network that it shall live in, as a path like /proc/123/ns/net; empty: the test's own.
  void enter_network(const std::string& path) { network_ = path; }

  // Starts it and waits until it says READY; false when it ended or stayed silent.
  bool start();
  // The two halves of start().
  void launch();
  bool await_ready(int wait_ms = 5000);
  // The next message to the service manager, "" when none comes in time.
  std::string next_notification(int wait_ms = 5000);

  // Returns from SIGSTOP when all its threads have stopped, or it has ended.
  void signal(int number) const;
  // Its exit status, or 1000 + the signal that ended it; -1: it has not ended in time (it is killed
  // then).
  int wait(int wait_ms = 60'000);

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& directory() const noexcept { return directory_.path(); }
  [[nodiscard]] std::string socket() const { return directory_ / "simm.sock"; }
  [[nodiscard]] std::string admin_socket() const { return directory_ / "admin.sock"; }
  [[nodiscard]] std::string log() const;
  // From the counters file, 0 when there is no such counter.
  [[nodiscard]] std::uint64_t counter(const std::string& name) const;
  // The reply of the admin socket, all pages of it; of an error its words.
  [[nodiscard]] std::string ask(const std::string& command, const std::string& argument = "") const;
  // The same reply, parsed; discarded when it is no JSON.
  [[nodiscard]] nlohmann::json report(const std::string& command,
                                      const std::string& argument = "") const;
  // Open sessions as soon as there are at most `wanted`, or after 5 s.
  [[nodiscard]] std::size_t sessions_settled_to(std::size_t wanted) const;
  [[nodiscard]] std::size_t open_descriptors() const;
  [[nodiscard]] bool alive() const;

private:
  struct Inherited {
    int fd;
    std::string name;
  };
  [[noreturn]] void run_child();
  void keep_or_drop(const std::string& message, ipc::UniqueFd file);

  const std::string role_;
  const TemporaryDirectory directory_{"/tmp"};  // short, for the names of sockets
  const std::string config_path_ = directory_ / "simm.json";
  std::vector<Inherited> inherited_;
  std::map<std::string, ipc::UniqueFd> kept_;
  std::map<std::string, std::string> environment_;
  std::string network_;
  ipc::UniqueFd notify_;
  pid_t pid_ = -1;
};

}  // namespace simm::test_support
