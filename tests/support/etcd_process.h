// EtcdProcess: a real etcd member, or several that are one cluster, in directories of their own,
// killed and swept away in the end. Thread: the test's.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace simm::test_support {

class EtcdProcess {
public:
  // Starts `members` and waits until each answers; the test fails when one does not.
  explicit EtcdProcess(std::size_t members = 1);
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  // "http://127.0.0.1:port" of each.
  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }
  // SIGKILL, SIGSTOP, SIGCONT. A killed member has ended when this returns, a stopped one stands.
  void signal(std::size_t member, int number);
  // One that was killed, with what it had on its disk.
  void restart(std::size_t member);
  // Runs `etcdctl` with these arguments at the first endpoint; what it prints.
  [[nodiscard]] std::string control(const std::string& arguments) const;

private:
  void launch(std::size_t member);
  void await(std::size_t member) const;

  const TemporaryDirectory directory_;
  std::vector<std::string> endpoints_;
  std::vector<std::string> peers_;
  std::vector<pid_t> pids_;
};

}  // namespace simm::test_support
