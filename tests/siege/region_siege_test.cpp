// Attacks through memory regions: odd descriptors, vanishing pages, sizes that nobody has.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "ipc/memory_file.h"
#include "simm/client.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace region_attacks {

using test_support::RawClient;

constexpr std::uint64_t kMiB = 1 << 20;

void check_alive(const test_support::DaemonProcess& daemon, Victim& victim) {
  CHECK(victim.does_rounds(3));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.sessions_settled_to(0) == 0);
  CHECK(daemon.report("regions").empty());
}

TEST_CASE("a descriptor that is no memory file is refused, whatever it is") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const std::string disk_file = "/var/tmp/simm-siege-" + std::to_string(::getpid());
  struct Odd {
    const char* what;
    int fd;
  };
  const Odd odd[] = {{"pipe", pipe_ends[0]},
                     {"directory", ::open("/tmp", O_RDONLY | O_DIRECTORY)},
                     {"proc file", ::open("/proc/self/status", O_RDONLY)},
                     {"device", ::open("/dev/zero", O_RDWR)},
                     {"disk file", ::open(disk_file.c_str(), O_RDWR | O_CREAT, 0600)},
                     {"socket", ::socket(AF_UNIX, SOCK_STREAM, 0)}};
  for (const Odd& attack : odd) {
    INFO(attack.what);
    REQUIRE(attack.fd >= 0);
    RawClient client = RawClient::attached(daemon.red_socket());
    const auto reply =
        client.register_region(attack.fd, nullptr, kMiB, ipc::RegionRequestKind::shared);
    CHECK(reply.status != Status::ok);
    CHECK(reply.handle == ipc::kNoRegion);
    CHECK_FALSE(reply.reason.empty());
    ::close(attack.fd);
  }
  ::unlink(disk_file.c_str());
  ::close(pipe_ends[1]);
  // A memory file that the client itself may only read is not opened for writing on its behalf.
  const int writable = ::memfd_create("siege", MFD_CLOEXEC);
  REQUIRE(::ftruncate(writable, kMiB) == 0);
  const int readable = ::open(("/proc/self/fd/" + std::to_string(writable)).c_str(), O_RDONLY);
  RawClient client = RawClient::attached(daemon.red_socket());
  const auto reply =
      client.register_region(readable, nullptr, kMiB, ipc::RegionRequestKind::shared);
  CHECK(reply.status == Status::permission_denied);
  ::close(readable);
  ::close(writable);
  client.socket().close();
  check_alive(daemon, victim);
}

TEST_CASE("sizes beyond the file, beyond the address space and beyond every budget are refused") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  {
    RawClient client = RawClient::attached(daemon.red_socket());
    const ipc::UniqueFd file = sealable_file(kMiB);
    for (const std::uint64_t length : {2 * kMiB, kMiB << 30, ~std::uint64_t{4095}}) {
      INFO(length);
      const auto reply =
          client.register_region(file.get(), nullptr, length, ipc::RegionRequestKind::shared);
      CHECK(reply.status != Status::ok);
    }
    // Far more regions than a session may have: the surplus is refused, the session lives.
    std::uint32_t granted = 0;
    Status last = Status::ok;
    for (int i = 0; i < 5000 && last == Status::ok; ++i) {
      const auto reply =
          client.register_region(file.get(), nullptr, 4096, ipc::RegionRequestKind::shared);
      last = reply.status;
      granted += reply.status == Status::ok ? 1 : 0;
    }
    CHECK(granted <= ipc::kRegionsMax);
    CHECK(granted >= 1024);
    CHECK(last == Status::out_of_memory);
  }
  check_alive(daemon, victim);
}

// Registers the file again and again until that is refused; how often it was not, and why then.
struct Flood {
  std::uint32_t granted = 0;
  ipc::RegionReply refusal;
};
Flood flood(RawClient& client, const ipc::UniqueFd& file, std::uint64_t length,
            std::uint32_t most) {
  Flood result;
  for (std::uint32_t i = 0; i < most && result.refusal.status == Status::ok; ++i) {
    result.refusal =
        client.register_region(file.get(), nullptr, length, ipc::RegionRequestKind::shared);
    result.granted += result.refusal.handle != ipc::kNoRegion ? 1 : 0;
  }
  return result;
}

TEST_CASE("a tenant has one budget of regions and bytes over all its sessions") {
  TwoTenantDaemon daemon(R"("memory": {"regions_tenant_max": 1500, "map_bytes_tenant_max": "2TiB",
                                       "regions_total_max": 2000, "map_bytes_max": "1500GiB"})");
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(1));  // it has its region
  const ipc::UniqueFd small = sealable_file(4096);
  const ipc::UniqueFd small_of_blue = sealable_file(4096);
  const ipc::UniqueFd large = sealable_file(kMiB << 20);  // 1 TiB
  {
    RawClient one = RawClient::attached(daemon.red_socket());
    RawClient two = RawClient::attached(daemon.red_socket());
    // Bytes: 1 TiB each, the second of a session is beyond its own budget.
    Flood asked = flood(one, large, kMiB << 20, 3);
    CHECK(asked.granted == 1);
    CHECK(asked.refusal.status == Status::out_of_memory);
    CHECK(asked.refusal.reason.find("session") != std::string::npos);
    CHECK(flood(two, large, kMiB << 20, 1).granted == 1);
    RawClient three = RawClient::attached(daemon.red_socket());
    asked = flood(three, large, kMiB << 20, 1);
    CHECK(asked.granted == 0);
    CHECK(asked.refusal.reason.find("tenant red") != std::string::npos);
  }
  {
    CHECK(test_support::eventually([&] { return daemon.report("regions").size() == 1; }));
    RawClient one = RawClient::attached(daemon.red_socket());
    RawClient two = RawClient::attached(daemon.red_socket());
    CHECK(flood(one, small, 4096, 1000).granted == 1000);
    Flood asked = flood(two, small, 4096, 1000);
    CHECK(asked.granted == 500);
    CHECK(asked.refusal.status == Status::out_of_memory);
    CHECK(asked.refusal.reason.find("tenant red") != std::string::npos);
    // The other tenant has its own budget, up to that of the daemon.
    RawClient honest = RawClient::attached(daemon.blue_socket());
    CHECK(flood(honest, small_of_blue, 4096, 100).granted == 100);
    asked = flood(honest, small_of_blue, 4096, 1000);
    CHECK(asked.granted == 2000 - 1500 - 100 - 1);  // one is the victim's
    CHECK(asked.refusal.reason.find("daemon") != std::string::npos);
    CHECK(daemon.counter("limit.region_pin_bytes.reached") == 4);
  }
  check_alive(daemon, victim);
}

TEST_CASE("a region truncated under a transfer costs its own session only") {
  OneTenantDaemon daemon;
  Victim victim(daemon.socket());
  for (const ipc::Opcode opcode : {ipc::Opcode::put, ipc::Opcode::get}) {
    CAPTURE(static_cast<int>(opcode));
    constexpr std::uint32_t kPages = 32;
    RawClient client = RawClient::attached(daemon.socket());
    const int file = ::memfd_create("siege", MFD_CLOEXEC);
    REQUIRE(::ftruncate(file, kPages * kMiB) == 0);
    void* memory =
        ::mmap(nullptr, kPages * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    REQUIRE(memory != MAP_FAILED);
    const auto reply =
        client.register_region(file, memory, kPages * kMiB, ipc::RegionRequestKind::shared);
    REQUIRE(reply.status == Status::ok);
    ipc::ClientLane lane(client.lane_memory(0));
    const auto shoot = [&](ipc::Opcode what) {
      for (std::uint32_t i = 0; i < kPages; ++i) {
        char key[16] = {};
        std::snprintf(key, sizeof key, "truncated %05u", i);
        REQUIRE(lane.write_key(i * 16, key, 16) == Status::ok);
        REQUIRE(lane.write_page(i, RawClient::page(reply.handle, i * kMiB, kMiB, i * 16, 16)) ==
                Status::ok);
      }
      ipc::Submission submission{};
      submission.token = 1;
      submission.timeout_ns = 5'000'000'000;
      submission.page_count = kPages;
      submission.opcode = static_cast<std::uint8_t>(what);
      REQUIRE(lane.push(submission) == Status::ok);
      client.ring();
    };
    const auto completed = [&] {
      ipc::Completion completion{};
      for (int tries = 0; tries < 6000; ++tries) {
        if (lane.poll_completion(completion) == ipc::Poll::taken) return true;
        ::usleep(1000);
      }
      return false;
    };
    if (opcode == ipc::Opcode::get) {
      shoot(ipc::Opcode::put);
      REQUIRE(completed());
      // Only the truncation below may be what the daemon runs into.
      REQUIRE(::ftruncate(file, kPages / 2 * kMiB) == 0);
      shoot(opcode);
    } else {
      shoot(opcode);
      REQUIRE(::ftruncate(file, kPages / 2 * kMiB) == 0);
    }
    (void)completed();
    if (opcode == ipc::Opcode::get) {
      CHECK(client.wait_for_poison() == ipc::PoisonReason::region_fault);
    }
    ::munmap(memory, kPages * kMiB);
    ::close(file);
  }
  check_alive(daemon, victim);
}

TEST_CASE("a huge sparse region maps at once, and gets into it do not fill the daemon's memory") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  {
    RawClient client = RawClient::attached(daemon.red_socket());
    const ipc::UniqueFd file = sealable_file(kMiB << 20);  // 1 TiB
    // The source is mapped before the daemon seals the file.
    void* source = ::mmap(nullptr, 4 * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(source != MAP_FAILED);
    const auto reply =
        client.register_region(file.get(), nullptr, kMiB << 20, ipc::RegionRequestKind::shared);
    REQUIRE(reply.handle != ipc::kNoRegion);
    struct stat before {};
    REQUIRE(::fstat(file.get(), &before) == 0);
    CHECK(before.st_blocks == 0);

    // One real object, fetched to ever new places of the sparse file.
    ipc::ClientLane lane(client.lane_memory(0));
    ipc::ClientSessionWords words(client.header());
    const auto shoot = [&](ipc::Opcode opcode, std::uint64_t offset, std::uint32_t pages) {
      REQUIRE(lane.write_key(0, "sparse object", 13) == Status::ok);
      for (std::uint32_t i = 0; i < pages; ++i) {
        REQUIRE(lane.write_page(i, RawClient::page(reply.handle, offset + i * 4 * kMiB, 4 * kMiB, 0,
                                                   13)) == Status::ok);
      }
      ipc::Submission submission{};
      submission.timeout_ns = 5'000'000'000;
      submission.page_count = pages;
      submission.opcode = static_cast<std::uint8_t>(opcode);
      if (lane.push(submission) != Status::ok) return false;
      client.ring();
      ipc::Completion completion{};
      for (int tries = 0; tries < 6000; ++tries) {
        if (lane.poll_completion(completion) == ipc::Poll::taken) return true;
        if (words.state() == ipc::SessionState::poisoned) return false;
        ::usleep(1000);
      }
      return false;
    };
    // The source is present: the client writes it itself.
    std::memset(source, 0x33, 4 * kMiB);
    REQUIRE(shoot(ipc::Opcode::put, 0, 1));
    for (std::uint64_t round = 1; round < 64; ++round) {
      if (!shoot(ipc::Opcode::get, round << 32, 64)) break;
    }
    struct stat after {};
    REQUIRE(::fstat(file.get(), &after) == 0);
    // 16 GiB were asked for; the budget is 64 MiB, one operation's pages may be under way over it.
    CHECK(after.st_blocks * 512 <= static_cast<blkcnt_t>(64 * kMiB + 64 * kMiB));
    ::munmap(source, 4 * kMiB);
  }
  check_alive(daemon, victim);
}

}  // namespace region_attacks
}  // namespace simm::siege
