// The client side of the tests in the guest (tests/guest/services.sh).
//
//   guest_client adopt           registers shared memory that it has already, moves a page through
//                                it, prints "<kind>: <why>", and stays attached until its standard
//                                input ends
//   guest_client connect         attaches, and prints "attached"; waits for a daemon up to a minute
//   guest_client hold TID        stops one thread (not its process) until that is killed
#include <simm/client.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace guest_client {

constexpr std::size_t kRegionBytes = 4 << 20;
constexpr std::size_t kPageBytes = 65536;
constexpr std::uint32_t kPatienceMs = 60'000;

int fail(const char* what, const char* why) {
  std::fprintf(stderr, "guest_client: %s: %s\n", what, why);
  return EXIT_FAILURE;
}

void wait_for_end_of_input() {
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
}

simm::Expected<simm::Client> attach() {
  simm::ClientOptions options;
  options.connect_timeout_ms = kPatienceMs;
  options.sync_timeout_ms = kPatienceMs;
  return simm::Client::connect(options);
}

int connect() {
  const auto client = attach();
  if (!client) return fail("connect", client.error().context.c_str());
  std::puts("attached");
  return EXIT_SUCCESS;
}

// As an engine does that makes its pool with mmap: shared, anonymous, and not ours.
int adopt() {
  auto client = attach();
  if (!client) return fail("connect", client.error().context.c_str());
  void* const memory =
      ::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail("mmap", std::strerror(errno));
  auto* const bytes = static_cast<unsigned char*>(memory);
  const auto region = client->register_region(memory, kRegionBytes);
  if (!region) return fail("register_region", region.error().context.c_str());

  std::memset(bytes, 0x5a, kPageBytes);
  const auto put = client->put("guest/page", simm::View(*region, 0, kPageBytes));
  if (!put.ok()) return fail("put", simm::status_name(put.status).data());
  const auto got = client->get("guest/page", simm::View(*region, kPageBytes, kPageBytes));
  if (!got.ok()) return fail("get", simm::status_name(got.status).data());
  if (std::memcmp(bytes, bytes + kPageBytes, kPageBytes) != 0) return fail("get", "other bytes");
  std::printf("%s: %s\n", simm::region_kind_name(region->kind()), region->kind_reason().c_str());
  wait_for_end_of_input();
  return EXIT_SUCCESS;
}

int hold(pid_t thread) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0 ||
      ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 ||
      ::waitpid(thread, nullptr, __WALL) != thread) {
    return fail("ptrace", std::strerror(errno));
  }
  std::puts("held");
  std::fflush(stdout);
  // A thread that is traced has not ended, nor has its process, before its tracer knows.
  int status = 0;
  while (::waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) continue;
  return EXIT_SUCCESS;
}

}  // namespace guest_client

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "connect") return guest_client::connect();
  if (command == "adopt") return guest_client::adopt();
  if (command == "hold" && argc == 3) {
    return guest_client::hold(static_cast<pid_t>(std::atoi(argv[2])));
  }
  return guest_client::fail("usage", "guest_client connect | adopt | hold TID");
}
