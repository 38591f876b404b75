// Memory of a client that was killed belongs to others as soon as the daemon has let go of it: no
// device touches it any more then. Here it outlives its clients, so that somebody can look.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "tests/guest/canary_memory.h"

namespace rdma_client {
namespace {

// The number that `command` prints.
long long number_from(const std::string& command) {
  FILE* const pipe = ::popen(command.c_str(), "r");
  long long number = 0;
  const bool is_there = pipe != nullptr && std::fscanf(pipe, "%lld", &number) == 1;
  if (pipe != nullptr) ::pclose(pipe);
  if (!is_there) fail("killed", "no number from: " + command);
  return number;
}

void wait_for(const std::string& command, long long wanted) {
  for (int tries = 0; number_from(command) != wanted; ++tries) {
    if (tries == 300) fail("killed", "the memory is registered still");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// A client that lives until it is killed. It says so through `told` when bytes come all the time.
[[noreturn]] void live(const std::string& socket, int memory, std::byte* at, int told) {
  simm::Client client = attach(socket);
  auto region = client.register_fd(memory, 0, kBytesOfGet, at);
  if (!region) fail("region", region.error().context);
  const auto items = Pages("killed", kPagesOfGet).at(*region, 0);
  fill(at, kBytesOfGet, kStored);
  put(client, items);
  get(client, items);
  const char ready = 1;
  if (::write(told, &ready, 1) != 1) fail("pipe", std::strerror(errno));
  while (true) get(client, items);
}

pid_t start_client(const std::string& socket, int memory, std::byte* at) {
  int told[2];
  if (::pipe(told) != 0) fail("pipe", std::strerror(errno));
  const pid_t child = ::fork();
  if (child < 0) fail("fork", std::strerror(errno));
  if (child == 0) live(socket, memory, at, told[1]);
  ::close(told[1]);
  char ready = 0;
  if (::read(told[0], &ready, 1) != 1) fail("killed", "the client ended by itself");
  ::close(told[0]);
  return child;
}

}  // namespace

int killed(const std::string& socket, int rounds, const std::string& registered) {
  const int memory = ::memfd_create("killed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0 || ::ftruncate(memory, kBytesOfGet) != 0) fail("memfd", std::strerror(errno));
  void* const mapped = ::mmap(nullptr, kBytesOfGet, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (mapped == MAP_FAILED) fail("mmap", std::strerror(errno));
  auto* const at = static_cast<std::byte*>(mapped);
  const long long before = number_from(registered);
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  int under_way = 0;
  for (int round = 0; round < rounds || under_way == 0; ++round) {
    const pid_t child = start_client(socket, memory, at);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    fill(at, kBytesOfGet, kCanary);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    // Bytes may come until the daemon has let go of the memory.
    under_way += is_cut(at, kBytesOfGet) ? 1 : 0;
    wait_for(registered, before);
    watch("killed", at, kBytesOfGet);
  }
  std::printf("seed %u: clients killed, %d of them while bytes came\n", seed, under_way);
  return EXIT_SUCCESS;
}

}  // namespace rdma_client
