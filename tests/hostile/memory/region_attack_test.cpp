// Regions that vanish, that never existed, or that would cost the daemon its memory.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/memory/copy_untrusted.h"
#include "daemon/transport/region_mover.h"
#include "tests/hostile/memory/attacked_daemon.h"
#include "tests/support/temporary_directory.h"

namespace region_attack {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Status;
namespace transport = simm::transport;

constexpr std::uint64_t kPages = 128;
constexpr std::uint64_t kObject = 64 * 1024;  // one page of a batch

// Runs a whole move and returns how it ended.
Status run(transport::Move& move, transport::Mover& mover) {
  simm::base::PayloadDigest stream;
  move.stream = &stream;
  move.digest_wanted = true;
  while (mover.step(move, 256 * 1024) != transport::MoveProgress::done) {
  }
  return move.status;
}

transport::Move move_of(const RegionMemory& memory, std::uint64_t offset,
                        std::vector<std::byte>& own, transport::MoveDirection direction) {
  transport::Move move;
  move.slice = {&memory.region(), offset, own.size()};
  move.memory = own.data();
  move.length = own.size();
  move.direction = direction;
  return move;
}

int run_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace region_attack

TEST_CASE("a region is truncated in the middle of puts and gets of 128 pages") {
  using namespace region_attack;
  Fixture fixture;
  auto fd = plain_memfd(kPages * kObject);
  auto memory = fixture.region(fd.get(), kPages * kObject);
  // The client is another process, so it really runs beside us; it stops when we do.
  const pid_t client = ::fork();
  if (client == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::uint64_t round = 0;; ++round) {
      const auto bytes = static_cast<off_t>(round * 7919 % (kPages * kObject));
      (void)!::ftruncate(fd.get(), bytes);
      (void)!::ftruncate(fd.get(), kPages * kObject);
    }
  }
  transport::RegionMover mover;
  std::vector<std::byte> own(kObject, std::byte{1});
  int ok = 0;
  int failed = 0;
  for (int batch = 0; batch < 2000 && (batch < 10 || failed == 0 || ok == 0); ++batch) {
    for (std::uint64_t page = 0; page < kPages; ++page) {
      for (const auto direction : {transport::MoveDirection::in, transport::MoveDirection::out}) {
        auto move = move_of(*memory, page * kObject, own, direction);
        const Status status = run(move, mover);
        REQUIRE((status == Status::ok ? true : status == Status::transfer_failed));
        ++(status == Status::ok ? ok : failed);
        // What arrived is what was hashed, whatever the client did meanwhile.
        if (status == Status::ok) {
          REQUIRE(move.digest == simm::base::payload_digest(own.data(), own.size()));
        }
      }
    }
  }
  ::kill(client, SIGKILL);
  ::waitpid(client, nullptr, 0);
  CHECK(ok > 0);
  CHECK(failed > 0);
}

TEST_CASE("a region on a file system that is full fails its pages, and nothing else") {
  using namespace region_attack;
  if (!is_root()) return;
  const simm::test_support::TemporaryDirectory directory;
  const int status = run_in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
      return 77;
    }
    simm::ipc::UniqueFd fd(::open((directory / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (::ftruncate(fd.get(), 1 << 20) != 0) return 1;
    Fixture fixture;
    auto memory = fixture.region(fd.get(), 1 << 20);
    std::vector<std::byte> own(1 << 20, std::byte{1});
    if (copy_untrusted(whole(*memory), 0, own.data(), 32 * 1024) != Status::ok) return 2;
    if (copy_untrusted(whole(*memory), 0, own.data(), own.size()) != Status::transfer_failed) {
      return 3;
    }
    if (copy_untrusted(own.data(), whole(*memory), 512 * 1024, 4096) != Status::transfer_failed) {
      return 4;
    }
    return copy_untrusted(whole(*memory), 0, own.data(), 32 * 1024) == Status::ok ? 42 : 5;
  });
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    MESSAGE("skipped: a file system can not be mounted here");
    return;
  }
  CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("gets into a sparse region of 1 TiB under a small memory limit do not kill the daemon") {
  using namespace region_attack;
  const char* const chosen = std::getenv("SIMM_SEED");
  const std::uint64_t seed = chosen ? std::strtoull(chosen, nullptr, 10) : std::random_device{}();
  INFO("repeat with: SIMM_SEED=" << seed << " hostile_memory -tc='gets into a sparse*'");
  constexpr std::uint64_t kBudget = 16 << 20;
  const std::string group = "/sys/fs/cgroup/memory/simm-test-" + std::to_string(::getpid());
  const bool is_limited = ::mkdir(group.c_str(), 0755) == 0;
  const int status = run_in_child([&] {
    if (is_limited) {
      std::ofstream(group + "/memory.limit_in_bytes") << (64 << 20);
      std::ofstream(group + "/cgroup.procs") << ::getpid();
    }
    Fixture fixture(kBudget);
    constexpr std::uint64_t kBytes = 1ull << 40;
    auto fd = plain_memfd(kBytes);
    auto memory = fixture.region(fd.get(), kBytes);
    std::mt19937_64 random(seed);
    std::vector<std::byte> own(kObject, std::byte{7});
    transport::RegionMover mover;
    int refused = 0;
    for (int i = 0; i < 20'000; ++i) {
      auto move =
          move_of(*memory, random() % (kBytes - kObject), own,
                  i % 2 == 0 ? transport::MoveDirection::out : transport::MoveDirection::in);
      const Status ended = run(move, mover);
      if (ended == Status::out_of_memory)
        ++refused;
      else if (ended != Status::ok)
        return 1;
    }
    struct stat facts {};
    if (::fstat(fd.get(), &facts) != 0) return 2;
    const auto used = static_cast<std::uint64_t>(facts.st_blocks) * 512;
    return used <= kBudget && refused > 19'000 ? 42 : 3;
  });
  if (is_limited)
    ::rmdir(group.c_str());
  else
    MESSAGE("without a memory cgroup: only the file's size is checked");
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("sparse regions of many sessions in turn, all kept, charge a bounded sum") {
  using namespace region_attack;
  constexpr std::uint64_t kBudget = 1 << 20;
  constexpr std::uint64_t kBytes = 4 * kBudget;
  TouchBudget daemon(kBudget * kTouchDaemonShare);
  TouchBudget tenant(kBudget * kTouchTenantShare, &daemon);
  PinBudget pins("tenant", 1ull << 40, 256);
  std::vector<std::byte> own(kObject, std::byte{7});
  std::vector<simm::ipc::UniqueFd> kept;
  std::uint64_t used = 0;
  for (int session = 0; session < 40; ++session) {
    TouchBudget touches(kBudget, &tenant);
    auto fd = plain_memfd(kBytes);
    auto file = simm::ipc::MemoryFile::inspect(duplicate(fd.get()));
    REQUIRE(file);
    RegionMemory::Spec spec;
    spec.length = kBytes;
    auto memory =
        RegionMemory::map(std::move(file).value(), spec, touches, pins.charge(kBytes).value());
    REQUIRE(memory);
    for (std::uint64_t at = 0; at < kBytes; at += kObject) {
      (void)copy_untrusted(whole(**memory), at, own.data(), kObject);
    }
    struct stat facts {};
    REQUIRE(::fstat(fd.get(), &facts) == 0);
    used += static_cast<std::uint64_t>(facts.st_blocks) * 512;
    kept.push_back(std::move(fd));
  }
  CHECK(used == kBudget * kTouchTenantShare);
}

TEST_CASE("a register storm ends at the pin budget and gives everything back") {
  using namespace region_attack;
  PinBudget pins("session", 1ull << 40, 256);
  TouchBudget touches(0);
  auto fd = plain_memfd(64ull << 30);
  std::vector<std::unique_ptr<RegionMemory>> regions;
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    auto charge = pins.charge(64ull << 30);
    if (!charge) {
      ++refused;
      continue;
    }
    auto file = simm::ipc::MemoryFile::inspect(duplicate(fd.get()));
    REQUIRE(file);
    RegionMemory::Spec spec;
    spec.length = 64ull << 30;
    auto made =
        RegionMemory::map(std::move(file).value(), spec, touches, std::move(charge).value());
    REQUIRE(made);
    regions.push_back(std::move(made).value());
  }
  CHECK(regions.size() == 16);
  CHECK(refused == 984);
  regions.clear();
  CHECK(pins.bytes() == 0);
  CHECK(pins.regions() == 0);
}

TEST_CASE("10^5 regions of 4 KiB end at the tenant's budget, whatever its sessions") {
  using namespace region_attack;
  constexpr std::uint32_t kAsked = 100'000;
  constexpr std::uint32_t kOfTenant = 5'000;
  PinBudget daemon("daemon", 1ull << 40, 8'000);
  PinBudget tenant("tenant red", 1ull << 40, kOfTenant, &daemon);
  PinBudget other("tenant blue", 1ull << 40, kOfTenant, &daemon);
  std::vector<std::unique_ptr<PinBudget>> sessions;
  for (int i = 0; i < 25; ++i) {
    sessions.push_back(std::make_unique<PinBudget>("session", 1ull << 40, 4'096, &tenant));
  }
  TouchBudget touches(0);
  RegionRegistrar registrar(RegionPolicy{}, nullptr, "no helper", {});
  Fixture fixture;
  const ForkedClient client{ForkedClientSpec{}};
  auto fd = plain_memfd(kPage);
  std::vector<std::unique_ptr<RegionMemory>> regions;
  std::uint32_t refused = 0;
  for (std::uint32_t i = 0; i < kAsked; ++i) {
    RegionOwner owner{*client.identity, *sessions[i % sessions.size()], touches, nullptr};
    const simm::ipc::RegisterRegion request{
        1, simm::ipc::RegionRequestKind::shared, 0, kPage, 0, true, "flood"};
    auto made = registrar.make(owner, request, duplicate(fd.get()));
    if (made) {
      regions.push_back(std::move(made->memory));
    } else {
      REQUIRE(made.status() == Status::out_of_memory);
      ++refused;
    }
  }
  CHECK(regions.size() == kOfTenant);
  CHECK(refused == kAsked - kOfTenant);
  CHECK(other.charge(kPage).has_value());
  regions.clear();
  CHECK(tenant.regions() == 0);
  CHECK(daemon.bytes() == 0);
}
