#include "tests/support/etcd_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tests/support/command_output.h"
#include "tests/support/free_port.h"

namespace simm::test_support {
namespace {

std::string free_url(const std::string& scheme) {
  return scheme + "://127.0.0.1:" + std::to_string(free_port());
}

// Of a host where nobody else lives.
std::string url_of(const std::string& scheme, std::size_t host, int port) {
  return scheme + "://" + NetworkNamespaces::address(host) + ":" + std::to_string(port);
}

}  // namespace

EtcdProcess::EtcdProcess(std::size_t members)
    : EtcdProcess(EtcdOptions{members, {}, {}, {}, nullptr}) {}

EtcdProcess::EtcdProcess(EtcdOptions options) : options_(std::move(options)) {
  for (std::size_t i = 0; i < options_.members; ++i) {
    const std::string scheme = options_.certificates.empty() ? "http" : "https";
    const bool is_here = options_.networks == nullptr;
    endpoints_.push_back(is_here ? free_url(scheme) : url_of(scheme, i, 2379));
    peers_.push_back(is_here ? free_url("http") : url_of("http", i, 2380));
    pids_.push_back(-1);
  }
  for (std::size_t i = 0; i < options_.members; ++i) launch(i);
  for (std::size_t i = 0; i < options_.members; ++i) await(i);
}

EtcdProcess::~EtcdProcess() {
  for (const pid_t pid : pids_) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

void EtcdProcess::launch(std::size_t member) {
  const std::string name = "m" + std::to_string(member);
  std::string cluster;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    cluster += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + peers_[i];
  }
  std::vector<std::string> words = {
      "etcd",
      "--name",
      name,
      "--data-dir",
      (options_.data.empty() ? directory_.path() : options_.data) + "/" + name,
      "--listen-client-urls",
      endpoints_[member],
      "--advertise-client-urls",
      endpoints_[member],
      "--listen-peer-urls",
      peers_[member],
      "--initial-advertise-peer-urls",
      peers_[member],
      "--initial-cluster",
      cluster,
      "--heartbeat-interval",
      "50",
      "--election-timeout",
      "500"};
  if (const std::string& at = options_.certificates; !at.empty()) {
    const std::string files[] = {"--cert-file",        at + "/server.pem",   "--key-file",
                                 at + "/server.key",   "--client-cert-auth", "--trusted-ca-file",
                                 at + "/authority.pem"};
    words.insert(words.end(), std::begin(files), std::end(files));
  }
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  const std::string log = directory_ / (name + ".log");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string network =
      options_.networks == nullptr ? std::string() : options_.networks->path(member);
  pids_[member] = ::fork();
  REQUIRE(pids_[member] >= 0);
  if (pids_[member] == 0) {
    if (!network.empty()) {
      const int there = ::open(network.c_str(), O_RDONLY | O_CLOEXEC);
      if (::setns(there, CLONE_NEWNET) != 0) ::_exit(126);
    }
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execvp("etcd", arguments.data());
    ::_exit(127);
  }
}

void EtcdProcess::await(std::size_t member) const {
  const std::string command = client(member) + flags_ + " endpoint health >/dev/null 2>&1";
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::system(command.c_str()) != 0) {
    int status = 0;
    REQUIRE_MESSAGE(::waitpid(pids_[member], &status, WNOHANG) == 0,
                    "etcd has ended: scripts/install_packages.sh installs it");
    REQUIRE(std::chrono::steady_clock::now() < until);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void EtcdProcess::signal(std::size_t member, int number) {
  REQUIRE(pids_[member] > 0);  // -1 is every process of the machine
  REQUIRE(::kill(pids_[member], number) == 0);
  if (number == SIGSTOP) {
    // Its threads go on until one of them has taken the signal.
    siginfo_t stopped{};
    ::waitid(P_PID, static_cast<id_t>(pids_[member]), &stopped, WSTOPPED | WEXITED | WNOWAIT);
  }
  if (number != SIGKILL) return;
  ::waitpid(pids_[member], nullptr, 0);
  pids_[member] = -1;
}

void EtcdProcess::restart(std::size_t member) {
  REQUIRE(pids_[member] == -1);
  launch(member);
  await(member);
}

void EtcdProcess::await_end(std::size_t member) {
  int status = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (::waitpid(pids_[member], &status, WNOHANG) == 0) {
    REQUIRE(std::chrono::steady_clock::now() < until);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  pids_[member] = -1;
}

std::string EtcdProcess::client(std::size_t member) const {
  std::string command = "ETCDCTL_API=3 etcdctl --endpoints=" + endpoints_[member];
  if (options_.networks != nullptr) {
    command = "nsenter --net=" + options_.networks->path(member) + " env " + command;
  }
  if (const std::string& at = options_.certificates; !at.empty()) {
    command += " --cacert=" + at + "/authority.pem --cert=" + at + "/client.pem --key=" + at +
               "/client.key";
  }
  return command;
}

std::size_t EtcdProcess::leader() const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < until) {
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      const std::string said = output_of(client(i) + flags_ + " endpoint status -w json").text;
      const auto rows = nlohmann::json::parse(said, nullptr, false);
      if (!rows.is_array() || rows.empty()) continue;
      const auto& status = rows[0]["Status"];
      if (status["leader"] == status["header"]["member_id"]) return i;
    }
  }
  FAIL("etcd has no leader");
  return 0;
}

std::string EtcdProcess::control(const std::string& arguments) const {
  return output_of(client(0) + flags_ + " " + arguments).text;
}

}  // namespace simm::test_support
