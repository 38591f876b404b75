// Clients that die at every system call, and at random instructions after one, of a whole life:
// attach, region, put, get, goodbye. Afterwards the daemon holds nothing of them.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "simm/client.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/number_from.h"

namespace simm::siege {
namespace deaths {

// What the dying child does; returns when it got through.
void live(const std::string& socket_path) {
  ClientOptions options;
  options.socket_path = socket_path;
  options.name = "mortal";
  auto client = Client::connect(options);
  if (!client) return;
  auto region = client->allocate_region(1 << 20);
  if (!region) return;
  std::memset(region->data(), 0x77, 1 << 20);
  (void)client->put("mortal", View(*region, 0, 1 << 19));
  (void)client->get("mortal", View(*region, 1 << 19, 1 << 19));
}

// Starts the child stopped before its life begins.
pid_t start_traced(const std::string& socket_path) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    live(socket_path);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSTOPPED(status));
  return child;
}

// Lets the child go on until `stops` system call boundaries and then `steps` instructions have
// passed, and kills it there. False when it ended before.
bool kill_at(const std::string& socket_path, int stops, int steps) {
  const pid_t child = start_traced(socket_path);
  int status = 0;
  for (int i = 0; i < stops + steps; ++i) {
    const auto request = i < stops ? PTRACE_SYSCALL : PTRACE_SINGLESTEP;
    if (::ptrace(request, child, nullptr, nullptr) != 0) break;
    REQUIRE(::waitpid(child, &status, __WALL) == child);
    if (WIFEXITED(status) || WIFSIGNALED(status)) return false;
  }
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, __WALL) == child && !WIFEXITED(status) && !WIFSIGNALED(status)) {
  }
  return true;
}

TEST_CASE("a client may die at any system call or instruction of its life") {
  const char* seed_text = std::getenv("SIMM_SEED");
  const auto seed =
      seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : std::random_device{}();
  MESSAGE("SIMM_SEED=" << seed << " siege -tc='a client may die*'");
  std::mt19937_64 random(seed);
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(3));
  CHECK_FALSE(kill_at(daemon.red_socket(), 1 << 20, 0));  // one that dies of old age first
  REQUIRE(daemon.sessions_settled_to(1) == 1);
  const std::size_t descriptors = daemon.open_descriptors();

  int boundaries = 0;
  while (kill_at(daemon.red_socket(), boundaries, 0)) ++boundaries;
  MESSAGE(boundaries << " system call boundaries");
  CHECK(boundaries > 50);
  for (std::uint64_t left = test_support::rounds_from("SIMM_ROUNDS", 500); left > 0; --left) {
    const int stops = static_cast<int>(random() % static_cast<unsigned>(boundaries));
    const int steps = static_cast<int>(random() % 3000);
    (void)kill_at(daemon.red_socket(), stops, steps);
  }

  CHECK(daemon.sessions_settled_to(1) == 1);
  // The daemon may still be closing the connection of the last report.
  CHECK(test_support::eventually([&] { return daemon.open_descriptors() <= descriptors; }));
  for (const auto& region : daemon.report("regions")) CHECK(region["name"] != "mortal");
  CHECK(victim.does_rounds(3));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
}

}  // namespace deaths
}  // namespace simm::siege
