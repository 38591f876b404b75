#include "tests/support/etcd_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/support/free_port.h"

namespace simm::test_support {
namespace {

std::string free_url() {
  return "http://127.0.0.1:" + std::to_string(free_port());
}

}  // namespace

EtcdProcess::EtcdProcess(std::size_t members) {
  for (std::size_t i = 0; i < members; ++i) {
    endpoints_.push_back(free_url());
    peers_.push_back(free_url());
    pids_.push_back(-1);
  }
  for (std::size_t i = 0; i < members; ++i) launch(i);
  for (std::size_t i = 0; i < members; ++i) await(i);
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
  const std::array<std::string, 19> words = {"etcd",
                                             "--name",
                                             name,
                                             "--data-dir",
                                             directory_ / name,
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
  const std::string log = directory_ / (name + ".log");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pids_[member] = ::fork();
  REQUIRE(pids_[member] >= 0);
  if (pids_[member] == 0) {
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execvp("etcd", arguments.data());
    ::_exit(127);
  }
}

void EtcdProcess::await(std::size_t member) const {
  const std::string command = "ETCDCTL_API=3 etcdctl --endpoints=" + endpoints_[member] +
                              " endpoint health >/dev/null 2>&1";
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

std::string EtcdProcess::control(const std::string& arguments) const {
  const std::string command =
      "ETCDCTL_API=3 etcdctl --endpoints=" + endpoints_[0] + " " + arguments + " 2>&1";
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> part{};
  for (std::size_t got = 0; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    text.append(part.data(), got);
  }
  ::pclose(pipe);
  return text;
}

}  // namespace simm::test_support
