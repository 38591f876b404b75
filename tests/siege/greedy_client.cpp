#include "tests/siege/greedy_client.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "ipc/memory_file.h"
#include "simm/client.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace {

using test_support::RawClient;

constexpr std::uint64_t kObjectBytes = 1 << 20;
constexpr std::uint64_t kHourNs = 3'600'000'000'000;
constexpr std::uint32_t kLanes = 16;
constexpr char kKey[] = "greedy";
constexpr std::uint32_t kKeyBytes = sizeof kKey - 1;

// How many gets were pushed; 0: something went wrong.
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

[[noreturn]] void be_greedy(const std::string& socket, int say) {
  RawClient client(socket);
  auto file = ipc::MemoryFile::create({"greedy", kObjectBytes, false, true});
  if (!client.attach(kLanes) || !file) ::_exit(1);
  const auto region =
      client.register_region(file->fd(), nullptr, kObjectBytes, ipc::RegionRequestKind::shared);
  const char pushed = push_all(client, region.handle) == kLanes * ipc::kSubmissionSlots;
  if (::write(say, &pushed, 1) != 1) ::_exit(1);
  for (;;) ::pause();
}

}  // namespace

void GreedyClient::put_object(const std::string& socket) {
  ClientOptions options;
  options.socket_path = socket;
  auto client = Client::connect(options);
  REQUIRE(client.has_value());
  auto region = client->allocate_region(kObjectBytes);
  REQUIRE(region.has_value());
  std::memset(region->data(), 0x5A, kObjectBytes);
  REQUIRE(client->put(kKey, View(*region, 0, kObjectBytes)).ok());
}

GreedyClient::GreedyClient(const std::string& socket) {
  REQUIRE(::pipe(said_) == 0);
  child_ = ::fork();
  REQUIRE(child_ >= 0);
  if (child_ == 0) be_greedy(socket, said_[1]);
  ::close(said_[1]);
}

bool GreedyClient::has_pushed() const {
  char pushed = 0;
  return ::read(said_[0], &pushed, 1) == 1 && pushed == 1;
}

void GreedyClient::kill() {
  if (child_ == 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
  ::close(said_[0]);
  child_ = 0;
}

}  // namespace simm::siege
