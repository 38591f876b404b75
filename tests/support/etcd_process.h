// EtcdProcess: a real etcd member, or several that are one cluster, in directories of their own,
// killed and swept away in the end. Thread: the test's.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/network_namespaces.h"
#include "tests/support/temporary_directory.h"

namespace simm::test_support {

struct EtcdOptions {
  std::size_t members = 1;
  // NAME.pem and NAME.key of "server" and "client", as TestCertificates makes them, and
  // authority.pem: with TLS, and a certificate of each client is wanted. Empty: without TLS.
  std::string certificates;
  std::string data;                       // the directory for it; empty: one of its own
  std::vector<std::string> arguments;     // more of them, for each member
  NetworkNamespaces* networks = nullptr;  // member i lives at host i; null: all live here
};

class EtcdProcess {
public:
  // Starts `members` and waits until each answers; the test fails when one does not.
  explicit EtcdProcess(std::size_t members = 1);
  explicit EtcdProcess(EtcdOptions options);
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  // "http://127.0.0.1:port" of each, with TLS https.
  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }
  // SIGKILL, SIGSTOP, SIGCONT. A killed member has ended when this returns, a stopped one stands.
  void signal(std::size_t member, int number);
  // One that was killed, with what it had on its disk.
  void restart(std::size_t member);
  // Waits until it has ended by itself.
  void await_end(std::size_t member);
  // What etcdctl needs to know of users: "--user=root:secret".
  void control_as(const std::string& flags) { flags_ = flags; }
  // The member that leads the others; the test fails when none does for long.
  [[nodiscard]] std::size_t leader() const;
  // Runs `etcdctl` with these arguments at the first endpoint; what it prints.
  [[nodiscard]] std::string control(const std::string& arguments) const;

private:
  void launch(std::size_t member);
  void await(std::size_t member) const;
  [[nodiscard]] std::string client(std::size_t member) const;

  const TemporaryDirectory directory_;
  const EtcdOptions options_;
  std::string flags_;
  std::vector<std::string> endpoints_;
  std::vector<std::string> peers_;
  std::vector<pid_t> pids_;
};

}  // namespace simm::test_support
