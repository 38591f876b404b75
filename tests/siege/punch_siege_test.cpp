// A client punches holes into its memory file, as slowly as the kernel lets it. Whoever touches a
// page there meanwhile waits in the kernel until the punch has ended, and no signal wakes him. So
// nothing of the daemon may touch such a file of one of several tenants.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/siege/slow_puncher.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace punch_attacks {

using test_support::RawClient;

constexpr std::uint64_t kBytes = SlowPuncher::kBytes;
constexpr std::uint32_t kPageBytes = 1 << 20;

// Puts and gets over the whole region as fast as the rings take them, as long as the session lives.
void shoot(RawClient& client, ipc::RegionHandle region, int rounds) {
  constexpr std::uint32_t kPages = 64;
  ipc::ClientLane lane(client.lane_memory(0));
  ipc::ClientSessionWords words(client.header());
  for (int round = 0; round < rounds; ++round) {
    REQUIRE(lane.write_key(0, "punched", 7) == Status::ok);
    for (std::uint32_t i = 0; i < kPages; ++i) {
      REQUIRE(lane.write_page(i, RawClient::page(region, std::uint64_t{i} * kPageBytes, kPageBytes,
                                                 0, 7)) == Status::ok);
    }
    ipc::Submission submission{};
    submission.timeout_ns = 1'000'000'000;
    submission.page_count = kPages;
    submission.opcode =
        static_cast<std::uint8_t>(round % 2 == 0 ? ipc::Opcode::put : ipc::Opcode::get);
    REQUIRE(lane.push(submission) == Status::ok);
    client.ring();
    ipc::Completion completion{};
    (void)test_support::eventually([&] {
      return lane.poll_completion(completion) == ipc::Poll::taken ||
             words.state() == ipc::SessionState::poisoned;
    });
    if (words.state() == ipc::SessionState::poisoned) return;
  }
}

std::size_t mapped_regions(const TwoTenantDaemon& daemon, const std::string& tenant) {
  std::vector<std::uint64_t> sessions;
  for (const auto& session : daemon.report("sessions")) {
    if (session.at("tenant") == tenant) sessions.push_back(session.at("session"));
  }
  std::size_t found = 0;
  for (const auto& region : daemon.report("regions")) {
    for (const std::uint64_t session : sessions) {
      if (region.at("session") == session) ++found;
    }
  }
  return found;
}

// At the end: the victim's calls were right, and no session is left.
void check_unharmed(TwoTenantDaemon& daemon, Victim& victim) {
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.sessions_settled_to(0) == 0);
}

TEST_CASE("a file that its owner punches slowly is touched by nothing of the daemon") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(1));
  {
    const ipc::UniqueFd file(::memfd_create("siege", MFD_CLOEXEC));
    REQUIRE(::ftruncate(file.get(), kBytes) == 0);
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(memory != MAP_FAILED);
    RawClient client = RawClient::attached(daemon.red_socket());
    const SlowPuncher puncher(file.get());
    // As a memory file, and as memory that the daemon would find by itself.
    const auto given =
        client.register_region(file.get(), memory, kBytes, ipc::RegionRequestKind::shared);
    const auto found =
        client.register_region(-1, memory, kBytes, ipc::RegionRequestKind::automatic);
    for (const ipc::RegionReply& reply : {given, found}) {
      INFO(reply.reason);
      CHECK(reply.status == Status::ok);
      CHECK(reply.kind == ipc::RegionRequestKind::staged);
      CHECK(reply.handle == ipc::kNoRegion);
      CHECK(reply.reason.find("allocate_region") != std::string::npos);
    }
    CHECK(mapped_regions(daemon, "red") == 0);
    CHECK(mapped_regions(daemon, "blue") == 1);
    shoot(client, given.handle, 4);
    CHECK(victim.does_rounds(20));
    ::munmap(memory, kBytes);
  }
  check_unharmed(daemon, victim);
}

TEST_CASE("a file that is punched while it is registered holds up its own tenant only") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(1));
  for (int round = 0; round < 3; ++round) {
    const ipc::UniqueFd file = sealable_file(kBytes);
    RawClient client = RawClient::attached(daemon.red_socket());
    auto puncher = std::make_unique<SlowPuncher>(file.get());
    ipc::RegisterRegion wanted;
    wanted.kind = ipc::RegionRequestKind::shared;
    wanted.length = kBytes;
    wanted.has_fd = true;
    const std::array<int, 1> fds = {file.get()};
    REQUIRE(client.send(wanted, fds));
    CHECK(lets_in(daemon.blue_socket()));
    CHECK(victim.does_rounds(5));
    puncher.reset();
    const auto reply = client.receive();
    REQUIRE(reply.has_value());
    CHECK(std::get<ipc::RegionReply>(*reply).handle != ipc::kNoRegion);
    CHECK(::fallocate(file.get(), SlowPuncher::kPunch, 0, kBytes) != 0);
  }
  check_unharmed(daemon, victim);
}

TEST_CASE("a file that the daemon maps for one of several tenants can not be punched") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  {
    RawClient client = RawClient::attached(daemon.red_socket());
    const ipc::UniqueFd file = sealable_file(kBytes);
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(memory != MAP_FAILED);
    const auto reply =
        client.register_region(file.get(), memory, kBytes, ipc::RegionRequestKind::shared);
    REQUIRE(reply.handle != ipc::kNoRegion);
    CHECK(::fallocate(file.get(), SlowPuncher::kPunch, 0, kBytes) != 0);
    CHECK(errno == EPERM);
    CHECK(::madvise(memory, kBytes, MADV_REMOVE) != 0);
    CHECK(::ftruncate(file.get(), 0) != 0);
    const SlowPuncher puncher(file.get());  // tries all the same, and makes pages present slowly
    shoot(client, reply.handle, 4);
    CHECK(mapped_regions(daemon, "red") == 1);
    CHECK(victim.does_rounds(20));
    ::munmap(memory, kBytes);
  }
  check_unharmed(daemon, victim);
}

}  // namespace punch_attacks
}  // namespace simm::siege
