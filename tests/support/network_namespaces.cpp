#include "tests/support/network_namespaces.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace simm::test_support {
namespace {

// A process that is in a new network and stays there for as long as this thread lives; -1: it may
// not.
pid_t process_in_new_network() {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t process = ::fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char done = ::unshare(CLONE_NEWNET) == 0 ? 1 : 0;
    [[maybe_unused]] const ssize_t said = ::write(ready[1], &done, 1);
    while (done != 0) ::pause();
    ::_exit(0);
  }
  ::close(ready[1]);
  char done = 0;
  const bool is_there = ::read(ready[0], &done, 1) == 1 && done == 1;
  ::close(ready[0]);
  if (is_there) return process;
  ::waitpid(process, nullptr, 0);
  return -1;
}

std::string network_of(pid_t process) {
  return "/proc/" + std::to_string(process) + "/ns/net";
}

}  // namespace

NetworkNamespaces::NetworkNamespaces(std::size_t hosts) : hosts_(hosts, -1) {
  is_ready_ = enter();
  for (std::size_t host = 0; host < hosts && is_ready_; ++host) is_ready_ = join(host);
  if (!is_ready_) {
    MESSAGE(
        "SKIPPED: no network namespaces here. It takes root with CAP_NET_ADMIN and "
        "CAP_SYS_ADMIN, and the packages iproute2, nftables and util-linux");
  }
}

NetworkNamespaces::~NetworkNamespaces() {
  hosts_.push_back(hub_);
  for (const pid_t process : hosts_) {
    if (process < 0) continue;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
}

bool NetworkNamespaces::enter() {
  hub_ = process_in_new_network();
  if (hub_ < 0) return false;
  return run(hub_, "ip link add bridge0 type bridge && ip link set bridge0 up");
}

bool NetworkNamespaces::join(std::size_t host) {
  hosts_[host] = process_in_new_network();
  const std::string port = "port" + std::to_string(host);
  return hosts_[host] > 0 &&
         run(hub_, "ip link add " + port + " type veth peer name eth0 netns " +
                       std::to_string(hosts_[host]) + " && ip link set " + port +
                       " master bridge0 up") &&
         run(hosts_[host], "ip link set lo up && ip address add " + address(host) +
                               "/24 dev eth0 && ip link set eth0 up") &&
         run(hosts_[host],
             "nft 'table inet simm { set blocked { type ipv4_addr; }; chain input { type filter "
             "hook input priority 0; policy accept; ip saddr @blocked drop; }; }'");
}

std::string NetworkNamespaces::path(std::size_t host) const {
  return network_of(hosts_[host]);
}

std::string NetworkNamespaces::address(std::size_t host) {
  return "10.77.0." + std::to_string(host + 1);
}

void NetworkNamespaces::block(std::size_t from, std::size_t to) {
  REQUIRE(run(hosts_[to], "nft add element inet simm blocked '{ " + address(from) + " }'"));
}

void NetworkNamespaces::mend() {
  for (const pid_t host : hosts_) REQUIRE(run(host, "nft flush set inet simm blocked"));
}

bool NetworkNamespaces::run(pid_t process, const std::string& command) {
  const std::string line = "PATH=$PATH:/usr/sbin:/sbin; nsenter --net=" + network_of(process) +
                           " sh -c \"" + command + "\" 2>&1";
  std::FILE* const output = ::popen(line.c_str(), "r");
  REQUIRE(output != nullptr);
  std::string words;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, output) != nullptr) words += buffer;
  if (::pclose(output) == 0) return true;
  MESSAGE(command << ": " << words);
  return false;
}

}  // namespace simm::test_support
