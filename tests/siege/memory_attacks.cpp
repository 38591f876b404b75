#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "ipc/memory_file.h"
#include "tests/siege/attacks.h"
#include "tests/siege/slow_puncher.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/support/lingering_socket.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace {

using test_support::LingeringSocket;
using test_support::RawClient;

// A lingering socket that was passed to the daemon. Whose close is the last one hangs until
// release(), so this process closes its own descriptor on a thread.
class Passed {
public:
  // False, and nothing hangs, where the kernel refuses.
  bool through(int socket, std::vector<int> others, std::size_t bytes) {
    others.push_back(lingering_.fd());
    if (!RawClient::pass(socket, others, bytes)) return false;
    closer_ = std::thread([this] { lingering_.give_away(); });
    return true;
  }
  ~Passed() {
    lingering_.release();
    if (closer_.joinable()) closer_.join();
  }

private:
  LingeringSocket lingering_;
  std::thread closer_;
};

ipc::RegisterRegion wanted_of(std::uint64_t bytes) {
  ipc::RegisterRegion wanted;
  wanted.kind = ipc::RegionRequestKind::shared;
  wanted.length = bytes;
  wanted.has_fd = true;
  return wanted;
}

ipc::UniqueFd filled_file(std::uint64_t bytes) {
  ipc::UniqueFd file(::memfd_create("large", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  REQUIRE(::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) == 0);
  return file;
}

}  // namespace

void attack_by_lingering_sockets(const Place& place, const Until& until) {
  const ipc::UniqueFd harmless(::eventfd(0, EFD_CLOEXEC));
  const std::vector<int> many(ipc::kFdsPerMessageMax, harmless.get());
  std::vector<std::unique_ptr<Passed>> passed;
  while (!until.is_over() && passed.size() < 12) {
    passed.push_back(std::make_unique<Passed>());
    RawClient client(place.red);
    if (passed.size() % 3 == 0) {  // too many in a message, before hello
      (void)passed.back()->through(client.socket().fd(), many, 8);
    } else if (passed.size() % 3 == 1) {  // in the bell
      REQUIRE(client.attach(1));
      (void)passed.back()->through(client.bell().fd(), {}, 8);
    } else {  // in a message that is never read
      REQUIRE(client.attach(1));
      REQUIRE(client.send(ipc::Goodbye{}));
      (void)passed.back()->through(client.socket().fd(), {}, 8);
    }
  }
  while (!until.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void attack_by_kept_session_memory(const Place& place, const Until& until) {
  std::vector<ipc::UniqueFd> kept;
  for (int attach = 0; attach < 200 && !until.is_over(); ++attach) {
    RawClient client(place.red);
    if (client.attach(ipc::kLanesMax)) kept.emplace_back(::dup(client.memory_fd()));
  }
}

void attack_by_slow_punches(const Place& place, const Until& until) {
  while (!until.is_over()) {
    const ipc::UniqueFd file = sealable_file(SlowPuncher::kBytes);
    RawClient client = RawClient::attached(place.red);
    auto puncher = std::make_unique<SlowPuncher>(file.get());
    const std::array<int, 1> fds = {file.get()};
    REQUIRE(client.send(wanted_of(SlowPuncher::kBytes), fds));
    for (int i = 0; i < 300 && !until.is_over(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    puncher.reset();
    REQUIRE(client.receive().has_value());
  }
}

void attack_by_registrations(const Place& place, const Until& until) {
  constexpr std::uint64_t kBytes = 16 << 20;
  std::vector<RawClient> crowd;
  for (int i = 0; i < 50; ++i) REQUIRE(crowd.emplace_back(place.red).attach(1));
  while (!until.is_over()) {
    for (RawClient& client : crowd) {
      const ipc::UniqueFd file = sealable_file(kBytes);
      const std::array<int, 1> fds = {file.get()};
      REQUIRE(client.send(wanted_of(kBytes), fds));
    }
    CHECK(lets_in(place.blue));
    for (RawClient& client : crowd) {
      const auto answer = client.receive();
      REQUIRE(answer.has_value());
      ipc::DeregisterRegion gone;
      gone.handle = std::get<ipc::RegionReply>(*answer).handle;
      REQUIRE(client.ask(gone).has_value());
    }
  }
}

void attack_by_descriptors(const Place& place, const Until& until) {
  std::vector<RawClient> clients;
  const auto file = ipc::MemoryFile::create({"small", 4096, false, false});
  REQUIRE(file.has_value());
  while (!until.is_over() && clients.size() < 8) {
    REQUIRE(clients.emplace_back(place.red).attach(1));
    for (int i = 0; i < 1000 && !until.is_over(); ++i) {
      const auto reply =
          clients.back().register_region(file->fd(), nullptr, 4096, ipc::RegionRequestKind::shared);
      if (reply.status != Status::ok) break;
    }
    CHECK(lets_in(place.blue));
  }
}

void attack_by_last_references(const Place& place, const Until& until) {
  constexpr std::uint64_t kBytes = 512ull << 20;
  for (int round = 0; round < 6 && !until.is_over(); ++round) {
    ipc::UniqueFd file = filled_file(kBytes);
    RawClient client = RawClient::attached(place.red);
    const int socket = round % 2 == 0 ? client.bell().fd() : client.socket().fd();
    (void)RawClient::pass(socket, {file.get()}, 8);
    file.reset();
  }
}

}  // namespace simm::siege
