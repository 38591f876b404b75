// A tenant that takes all it can get, dies with it, or just sits there in great numbers.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "ipc/memory_file.h"
#include "simm/client.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace greed {

using test_support::RawClient;

constexpr std::uint64_t kObjectBytes = 1 << 20;
constexpr std::uint64_t kHourNs = 3'600'000'000'000;
constexpr std::uint32_t kLanes = 16;
constexpr char kKey[] = "greedy";
constexpr std::uint32_t kKeyBytes = sizeof kKey - 1;

// Pushes gets of a terabyte in all, with an hour each. How many; 0: something went wrong.
std::uint32_t push_all(RawClient& client, ipc::RegionHandle region) {
  std::uint32_t pushed = 0;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    ipc::ClientLane lane(client.lane_memory(i));
    if (lane.write_key(0, kKey, kKeyBytes) != Status::ok) return 0;
    for (std::uint32_t page = 0; page < ipc::kPagesPerSubmissionMax; ++page) {
      const auto said = RawClient::page(region, 0, kObjectBytes, 0, kKeyBytes);
      if (lane.write_page(page, said) != Status::ok) return 0;
    }
    ipc::Submission get{};
    get.opcode = static_cast<std::uint8_t>(ipc::Opcode::get);
    get.page_count = ipc::kPagesPerSubmissionMax;
    get.timeout_ns = kHourNs;
    while (lane.push(get) == Status::ok) ++pushed;
  }
  client.ring();
  return pushed;
}

// A process that does this, and then waits for its death. Its first byte says that it has.
struct Greedy {
  explicit Greedy(const std::string& socket) {
    REQUIRE(::pipe(said) == 0);
    child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      RawClient client(socket);
      auto file = ipc::MemoryFile::create({"greedy", kObjectBytes, false, true});
      if (!client.attach(kLanes) || !file) ::_exit(1);
      const auto region =
          client.register_region(file->fd(), nullptr, kObjectBytes, ipc::RegionRequestKind::shared);
      const char pushed = push_all(client, region.handle) == kLanes * ipc::kSubmissionSlots;
      if (::write(said[1], &pushed, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(said[1]);
  }
  ~Greedy() { kill(); }
  [[nodiscard]] bool has_pushed() const {
    char pushed = 0;
    return ::read(said[0], &pushed, 1) == 1 && pushed == 1;
  }
  void kill() {
    if (child == 0) return;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(said[0]);
    child = 0;
  }
  int said[2] = {};
  pid_t child = 0;
};

TEST_CASE("a tenant that asks for a terabyte in an hour holds nobody up, nor does its death") {
  TwoTenantDaemon daemon;
  ClientOptions options;
  options.socket_path = daemon.red_socket();
  {
    auto client = Client::connect(options);
    REQUIRE(client.has_value());
    auto region = client->allocate_region(kObjectBytes);
    REQUIRE(region.has_value());
    std::memset(region->data(), 0x5A, kObjectBytes);
    REQUIRE(client->put(kKey, View(*region, 0, kObjectBytes)).ok());
  }
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(3));
  Greedy greedy(daemon.red_socket());
  REQUIRE(greedy.has_pushed());
  CHECK(victim.does_rounds(100));
  CHECK(daemon.sessions_settled_to(2) == 2);
  greedy.kill();
  // Its gets had the better part of an hour left.
  CHECK(daemon.sessions_settled_to(1) == 1);
  CHECK(victim.does_rounds(100));
  victim.stop();
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.alive());
}

std::uint64_t resting(const TwoTenantDaemon& daemon) {
  std::uint64_t sum = 0;
  for (int agent = 0; agent < 64; ++agent) {
    sum += daemon.counter("session." + std::to_string(agent) + ".resting");
  }
  return sum;
}

TEST_CASE("sessions that ask for nothing cost nobody's turns, and are there when they ask") {
  constexpr std::uint32_t kIdle = 120;
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(3));
  std::vector<RawClient> idle;
  for (std::uint32_t i = 0; i < kIdle; ++i) {
    idle.emplace_back(daemon.red_socket());
    REQUIRE(idle.back().attach(kLanes));
  }
  for (int tries = 0; tries < 20'000 && resting(daemon) < kIdle; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(resting(daemon) >= kIdle);
  CHECK(victim.does_rounds(100));
  for (std::uint32_t i = 0; i < kIdle; ++i) {
    ipc::ClientLane lane(idle[i].lane_memory(i % kLanes));
    REQUIRE(lane.push(ipc::Submission{}) == Status::ok);
    idle[i].ring();
    ipc::Completion done{};
    ipc::Poll polled = ipc::Poll::empty;
    for (int tries = 0; tries < 20'000 && polled == ipc::Poll::empty; ++tries) {
      polled = lane.poll_completion(done);
      if (polled == ipc::Poll::empty) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    REQUIRE(polled == ipc::Poll::taken);
  }
  CHECK(victim.does_rounds(100));
  victim.stop();
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.alive());
}

}  // namespace greed
}  // namespace simm::siege
