#include "daemon/memory/region_memory.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/memory/copy_untrusted.h"
#include "daemon/memory/numa_node.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace region_memory_test {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Status;

}  // namespace region_memory_test

TEST_CASE("a region of 100 GiB of untouched memory maps at once and touches none of it") {
  using namespace region_memory_test;
  Fixture fixture;
  constexpr std::uint64_t kBytes = 100ull << 30;
  auto fd = plain_memfd(kBytes);
  auto memory = fixture.region(fd.get(), kBytes);
  CHECK(memory->region().base != nullptr);
  CHECK(memory->region().length == kBytes);
  struct stat facts {};
  REQUIRE(::fstat(fd.get(), &facts) == 0);
  CHECK(facts.st_blocks == 0);
  CHECK(memory->region().numa_node == -1);
}

TEST_CASE("a region must lie inside its file") {
  using namespace region_memory_test;
  Fixture fixture;
  auto fd = plain_memfd(4 * kPage);
  const auto status = [&](std::uint64_t offset, std::uint64_t length) {
    RegionMemory::Spec spec;
    spec.file_offset = offset;
    spec.length = length;
    return fixture.map(duplicate(fd.get()), spec).status();
  };
  CHECK(status(0, 4 * kPage) == Status::ok);
  CHECK(status(4 * kPage - 1, 1) == Status::ok);
  CHECK(status(4 * kPage, 1) == Status::invalid_argument);
  CHECK(status(1, 4 * kPage) == Status::invalid_argument);
  CHECK(status(UINT64_MAX, 2) == Status::invalid_argument);
  CHECK(fixture.pins.regions() == 0);  // all of them have gone, and given back what they had
  CHECK(fixture.pins.bytes() == 0);
}

TEST_CASE("for one tenant no file is sealed, so the next daemon and a child can map it, too") {
  using namespace region_memory_test;
  Fixture fixture;
  for (const int seals : {0, F_SEAL_GROW | F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_SEAL}) {
    CAPTURE(seals);
    auto fd = plain_memfd(kPage, MFD_ALLOW_SEALING);
    REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
    const auto first = fixture.region(fd.get(), kPage);
    const auto second = fixture.region(fd.get(), kPage);
    CHECK(first->region().base != second->region().base);
    CHECK(::fcntl(fd.get(), F_GET_SEALS) == seals);
    CHECK(first->can_shrink() == (seals == 0));
  }
}

TEST_CASE("for several tenants only files that nobody can punch any more are mapped") {
  using namespace region_memory_test;
  Fixture fixture;
  MappedFiles lasting;
  const auto seals_after = [&](int seals, RegionKind kind) {
    auto fd = plain_memfd(kPage, MFD_ALLOW_SEALING);
    REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
    RegionMemory::Spec spec;
    spec.length = kPage;
    spec.kind = kind;
    const auto made = fixture.map(duplicate(fd.get()), spec, &lasting);
    if (!made) {
      CHECK(made.status() == Status::unsupported);
      CHECK(made.error().context.find("other tenants") != std::string::npos);
    }
    const bool can_punch =
        ::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage) == 0;
    CHECK(made.has_value() != can_punch);
    return ::fcntl(fd.get(), F_GET_SEALS);
  };
  const int size = F_SEAL_GROW | F_SEAL_SHRINK;
  CHECK(seals_after(size, RegionKind::shared) == (size | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
  CHECK(seals_after(size, RegionKind::adopted) == size);
  CHECK(seals_after(F_SEAL_GROW, RegionKind::shared) == F_SEAL_GROW);
  CHECK(seals_after(size | F_SEAL_SEAL, RegionKind::shared) == (size | F_SEAL_SEAL));
  CHECK(fixture.pins.regions() == 0);
}

TEST_CASE("a mapping that two regions share is unmapped in pieces by the last one alone") {
  using namespace region_memory_test;
  Fixture fixture;
  MappedFiles lasting;
  auto fd = plain_memfd(4 * kPage, MFD_ALLOW_SEALING);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  RegionMemory::Spec spec;
  spec.tenant = 7;
  spec.length = 4 * kPage;
  auto first = fixture.map(duplicate(fd.get()), spec, &lasting);
  auto second = fixture.map(duplicate(fd.get()), spec, &lasting);
  REQUIRE(first);
  REQUIRE(second);
  CHECK((*first)->unmap_piece(kPage) == 0);
  first->reset();
  std::byte own{5};
  CHECK(copy_untrusted(whole(**second), 3 * kPage, &own, 1) == Status::ok);
  CHECK((*second)->unmap_piece(kPage) == kPage);
  // Nobody gets what is going.
  CHECK(lasting.find(7, fd.get(), 0, kPage).mapping == nullptr);
  CHECK((*second)->unmap_piece(16 * kPage) == 3 * kPage);
  CHECK((*second)->unmap_piece(kPage) == 0);
}

TEST_CASE("a sealed file is mapped once, and its tenant's further regions share that mapping") {
  using namespace region_memory_test;
  Fixture fixture;
  MappedFiles lasting;
  auto fd = plain_memfd(8 * kPage, MFD_ALLOW_SEALING);
  make_present(fd.get(), 8 * kPage);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  RegionMemory::Spec spec;
  spec.tenant = 7;
  spec.file_offset = kPage;
  spec.length = 6 * kPage;
  auto parent = fixture.map(duplicate(fd.get()), spec, &lasting);
  REQUIRE(parent);
  spec.file_offset = 2 * kPage + 100;
  spec.length = 4 * kPage;
  auto child = fixture.map(duplicate(fd.get()), spec, &lasting);
  REQUIRE(child);
  CHECK((*child)->region().base == (*parent)->region().base + kPage + 100);
  CHECK(fixture.pins.bytes() == 10 * kPage);  // each is charged
  parent->reset();
  std::byte own{5};
  CHECK(copy_untrusted(whole(**child), 0, &own, 1) == Status::ok);
  char seen = 0;
  REQUIRE(::pread(fd.get(), &seen, 1, 2 * kPage + 100) == 1);
  CHECK(seen == 5);

  const auto refused = [&](std::uint64_t tenant, std::uint64_t offset, MappedFiles* files) {
    spec.tenant = tenant;
    spec.file_offset = offset;
    const auto made = fixture.map(duplicate(fd.get()), spec, files);
    if (made) return false;
    CHECK(made.error().context.find("F_SEAL_FUTURE_WRITE") != std::string::npos);
    return made.status() == Status::unsupported;
  };
  MappedFiles of_next_daemon;
  CHECK(refused(8, 2 * kPage, &lasting));         // another tenant's
  CHECK(refused(7, 0, &lasting));                 // beyond the mapping
  CHECK(refused(7, 4 * kPage, &lasting));         // the same, behind
  CHECK(refused(7, 2 * kPage, &of_next_daemon));  // a restart
  CHECK(refused(7, 2 * kPage, nullptr));
  CHECK_FALSE(refused(7, 2 * kPage, &lasting));
}

TEST_CASE("the mapping of a sealed file goes with the last region that uses it") {
  using namespace region_memory_test;
  Fixture fixture;
  MappedFiles lasting;
  auto fd = plain_memfd(kPage, MFD_ALLOW_SEALING);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  RegionMemory::Spec spec;
  spec.length = kPage;
  auto parent = fixture.map(duplicate(fd.get()), spec, &lasting);
  REQUIRE(parent);
  auto child = fixture.map(duplicate(fd.get()), spec, &lasting);
  parent->reset();
  CHECK(fixture.map(duplicate(fd.get()), spec, &lasting));
  child->reset();
  CHECK(fixture.map(duplicate(fd.get()), spec, &lasting).status() == Status::unsupported);
}

TEST_CASE("mappings that have gone do not stay in the table of mapped files") {
  using namespace region_memory_test;
  Fixture fixture;
  MappedFiles lasting;
  std::size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    auto fd = plain_memfd(kPage, MFD_ALLOW_SEALING);
    REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    (void)fixture.region(fd.get(), kPage, 0, &lasting);
    most = std::max(most, lasting.size());
  }
  CHECK(most <= 64);
}

TEST_CASE("the node of present pages is known, of absent ones it is not asked") {
  using namespace region_memory_test;
  Fixture fixture;
  auto fd = plain_memfd(64 * kPage);
  std::vector<char> bytes(64 * kPage, 'x');
  REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), 0) == 64 * kPage);
  auto memory = fixture.region(fd.get(), 64 * kPage);
  const int node = memory->region().numa_node;
  CHECK(node >= 0);
  CHECK(node < 64);
}

TEST_CASE("touched bytes are bounded for session, tenant and daemon, and come back with time") {
  using namespace region_memory_test;
  static std::uint64_t now_ns;
  now_ns = 1;
  const TouchBudget::Clock clock = []() noexcept { return now_ns; };
  TouchBudget daemon(10, nullptr, clock);
  TouchBudget tenant(7, &daemon, clock);
  std::uint64_t touched = 0;
  const auto use_up = [&](std::uint64_t bytes) {
    TouchBudget session(bytes, &tenant, clock);
    while (session.take(1)) ++touched;
    CHECK_FALSE(session.take(1));
  };
  use_up(4);
  CHECK(touched == 4);
  use_up(4);
  CHECK(touched == 7);  // the tenant's
  use_up(4);
  CHECK(touched == 7);
  TouchBudget other_tenant(7, &daemon, clock);
  CHECK_FALSE(other_tenant.take(4));  // the daemon's: nothing was taken anywhere
  CHECK(other_tenant.left_bytes() == 7);
  CHECK(other_tenant.take(3));
  now_ns += kTouchRenewalNs - 1;
  use_up(4);
  CHECK(touched == 7);
  ++now_ns;
  use_up(4);
  CHECK(touched == 11);
  TouchBudget none(0, nullptr, clock);
  now_ns += kTouchRenewalNs;
  CHECK_FALSE(none.take(1));
}

TEST_CASE("presence is known by SEEK_HOLE where mincore does not tell the truth") {
  using namespace region_memory_test;
  auto fd = plain_memfd(1ull << 30);
  std::vector<char> bytes(4 * kPage, 'x');
  REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), 8 * kPage) == 4 * kPage);
  TouchBudget budget(3 * kPage);
  auto mapping = simm::ipc::Mapping::map(fd.get(), 2 * kPage, 1 << 20);
  REQUIRE(mapping);
  for (const bool by_seek : {true, false}) {
    RegionPages pages({mapping->data(), 1 << 20, 2 * kPage, PageTrust::none, &budget},
                      by_seek ? duplicate(fd.get()) : simm::ipc::UniqueFd());
    CHECK(pages.absent_bytes(0, 16 * kPage) == 12 * kPage);
    CHECK(pages.absent_bytes(6 * kPage, 4 * kPage) == 0);
    CHECK(pages.absent_bytes(5 * kPage, 4 * kPage) == kPage);
    CHECK(pages.absent_bytes(20 * kPage, 4 * kPage) == 4 * kPage);
    CHECK(pages.admit(mapping->data() + 6 * kPage, 4 * kPage) == Status::ok);
    CHECK(pages.admit(mapping->data() + 6 * kPage + 1, 4 * kPage) == Status::ok);
    CHECK(pages.admit(mapping->data(), 6 * kPage) == Status::out_of_memory);
  }
  CHECK(budget.left_bytes() == kPage);
}

TEST_CASE("what can not be punched is remembered, chunk by chunk, holes beside it or not") {
  using namespace region_memory_test;
  constexpr std::uint64_t kChunk = RegionPages::kChunkBytes;
  constexpr std::uint64_t kBytes = 3 * kChunk + 2 * kPage;
  auto fd = plain_memfd(kBytes);
  const std::vector<char> bytes(kBytes, 'x');
  const auto fill = [&](std::uint64_t from, std::uint64_t length) {
    return ::pwrite(fd.get(), bytes.data(), length, static_cast<off_t>(from)) ==
           static_cast<ssize_t>(length);
  };
  // All of the second chunk, all of the last (short) one, and a page of the third.
  REQUIRE((fill(kChunk, kChunk) && fill(2 * kChunk + kPage, kPage) && fill(3 * kChunk, 2 * kPage)));
  auto mapping = simm::ipc::Mapping::map(fd.get(), 0, kBytes);
  REQUIRE(mapping);
  TouchBudget budget(2 * kPage);
  RegionPages pages({mapping->data(), kBytes, 0, PageTrust::whole, &budget}, {});
  CHECK(pages.admit(mapping->data() + kChunk + 5 * kPage, kPage) == Status::ok);
  CHECK(pages.admit(mapping->data() + 3 * kChunk + kPage, kPage) == Status::ok);
  CHECK(pages.admit(mapping->data() + 2 * kChunk + kPage, kPage) == Status::ok);
  CHECK(budget.left_bytes() == 2 * kPage);
  // The first and the third page of the third chunk, one after the other and not twice.
  CHECK(pages.admit(mapping->data() + 2 * kChunk - kPage, 2 * kPage) == Status::ok);
  REQUIRE(fill(2 * kChunk, kPage));
  CHECK(pages.admit(mapping->data() + 2 * kChunk - kPage, 4 * kPage) == Status::ok);
  CHECK(budget.left_bytes() == 0);
  CHECK(pages.admit(mapping->data() + 2 * kChunk + 2 * kPage, kPage) == Status::out_of_memory);
  CHECK(pages.admit(mapping->data(), 2 * kChunk) == Status::out_of_memory);
  // This file can be punched after all, which shows what is not asked about any more.
  for (const std::uint64_t from : {kChunk, 2 * kChunk + kPage, 3 * kChunk}) {
    REQUIRE(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(from), kPage) == 0);
  }
  CHECK(pages.admit(mapping->data() + kChunk, kChunk) == Status::ok);
  CHECK(pages.admit(mapping->data() + 3 * kChunk, 2 * kPage) == Status::ok);
  CHECK(pages.admit(mapping->data() + 2 * kChunk + kPage, kPage) == Status::out_of_memory);
}

TEST_CASE("who punches remembered pages out is found by a spot check, and pays from then on") {
  using namespace region_memory_test;
  constexpr std::uint64_t kBytes = 64 * RegionPages::kChunkBytes;
  auto fd = plain_memfd(kBytes);
  auto other = plain_memfd(kBytes);
  make_present(fd.get(), kBytes);
  make_present(other.get(), kBytes);
  auto mapping = simm::ipc::Mapping::map(fd.get(), 0, kBytes);
  auto second = simm::ipc::Mapping::map(other.get(), 0, kBytes);
  REQUIRE((mapping && second));
  TouchBudget tenant(2 * kBytes);
  TouchBudget budget(kBytes + 8 * kPage, &tenant);
  RegionPages pages({mapping->data(), kBytes, 0, PageTrust::spot_checked, &budget}, {});
  RegionPages others({second->data(), kBytes, 0, PageTrust::spot_checked, &budget}, {});
  // As long as all is there a look costs nothing, however many there are.
  for (int i = 0; i < 100; ++i) {
    REQUIRE(pages.admit(mapping->data(), kBytes) == Status::ok);
    REQUIRE(others.admit(second->data(), kBytes) == Status::ok);
  }
  CHECK(budget.left_bytes() == kBytes + 8 * kPage);
  CHECK_FALSE(budget.is_doubted());

  // A page of each chunk goes: one look in 64 sees it. (1 - 1/64)^65536 is below 1e-400.
  for (const int file : {fd.get(), other.get()}) {
    for (std::uint64_t at = 0; at < kBytes; at += RegionPages::kChunkBytes) {
      REQUIRE(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                          kPage) == 0);
    }
  }
  for (int i = 0; i < 1024 && !budget.is_doubted(); ++i) (void)pages.admit(mapping->data(), kBytes);
  REQUIRE(budget.is_doubted());
  // The bytes that were touched unseen until then, on average.
  CHECK(budget.left_bytes() <= 8 * kPage);
  CHECK(tenant.left_bytes() <= kBytes);
  // No region of the session is believed any more.
  CHECK(pages.admit(mapping->data(), kBytes) == Status::out_of_memory);
  CHECK(others.admit(second->data(), kBytes) == Status::out_of_memory);
  make_present(other.get(), kBytes);
  CHECK(others.admit(second->data(), kBytes) == Status::ok);
}

TEST_CASE("who touches all of a range or nothing pays for what is absent, or nothing") {
  using namespace region_memory_test;
  constexpr std::uint64_t kBytes = 3 * RegionPages::kGranuleBytes;
  for (const PageTrust trust : {PageTrust::none, PageTrust::spot_checked, PageTrust::whole}) {
    CAPTURE(static_cast<int>(trust));
    auto fd = plain_memfd(kBytes);
    auto mapping = simm::ipc::Mapping::map(fd.get(), 0, kBytes);
    REQUIRE(mapping);
    TouchBudget budget(kBytes - 2 * kPage);
    RegionPages pages({mapping->data(), kBytes, 0, trust, &budget}, {});
    CHECK(pages.admit_whole(mapping->data(), kBytes, true) == Status::out_of_memory);
    CHECK(budget.left_bytes() == kBytes - 2 * kPage);
    // Whole pages count, also where the range begins and ends inside one.
    CHECK(pages.admit_whole(mapping->data() + kPage - 1, kBytes - 2 * kPage + 2, true) ==
          Status::out_of_memory);
    CHECK(pages.admit_whole(mapping->data() + kPage, 1, false) == Status::out_of_memory);
    CHECK(budget.left_bytes() == kBytes - 2 * kPage);
    CHECK(pages.admit_whole(mapping->data() + kPage, kBytes - 2 * kPage, true) == Status::ok);
    CHECK(budget.left_bytes() == 0);
    make_present(fd.get(), kBytes);
    CHECK(pages.admit_whole(mapping->data(), kBytes, false) == Status::ok);
    CHECK(pages.admit_whole(mapping->data(), kBytes, true) == Status::ok);
  }
}

TEST_CASE("NICs let a region go while it is mapped and charged") {
  using namespace region_memory_test;
  struct Seen {
    bool was_mapped = false;
    std::uint64_t charged_bytes = 0;
  };
  class Keys final : public RegionKeys {
  public:
    Keys(const Region& region, const PinBudget& pins, Seen& seen)
        : region_(region), pins_(pins), seen_(seen) {}
    ~Keys() override {
      unsigned char present = 0;
      seen_.was_mapped = ::mincore(region_.base, kPage, &present) == 0;
      seen_.charged_bytes = pins_.bytes();
    }

  private:
    const Region& region_;
    const PinBudget& pins_;
    Seen& seen_;
  };
  Fixture fixture;
  auto fd = plain_memfd(4 * kPage);
  auto memory = fixture.region(fd.get(), 4 * kPage);
  CHECK(memory->region().keys == nullptr);
  Seen seen;
  memory->attach(std::make_unique<Keys>(memory->region(), fixture.pins, seen));
  CHECK(memory->region().keys != nullptr);
  memory.reset();
  CHECK(seen.was_mapped);
  CHECK(seen.charged_bytes == 4 * kPage);
  CHECK(fixture.pins.bytes() == 0);
}

TEST_CASE("a file of mode 0600 of another user is seen through as well") {
  using namespace region_memory_test;
  if (::getuid() != 0) {
    MESSAGE("skipped: changing the user needs root");
    return;
  }
  auto fd = plain_memfd(64 * kPage, MFD_ALLOW_SEALING);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  REQUIRE(::fchmod(fd.get(), 0600) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // The descriptor stays open for writing; only its file's mode speaks against this user.
    if (::setgid(54321) != 0 || ::setuid(54321) != 0) ::_exit(1);
    PinBudget pins("session", 1ull << 40, 10);
    TouchBudget touches(0);
    auto file = simm::ipc::MemoryFile::inspect(duplicate(fd.get()));
    RegionMemory::Spec spec;
    spec.length = 64 * kPage;
    auto memory =
        RegionMemory::map(std::move(file).value(), spec, touches, pins.charge(64 * kPage).value());
    const Region& region = memory.value()->region();
    if (region.pages->admit(region.base, kPage) != Status::out_of_memory) ::_exit(2);
    // For several tenants it is not: lseek() waits for the lock that a slow fallocate() holds.
    MappedFiles lasting;
    file = simm::ipc::MemoryFile::inspect(duplicate(fd.get()));
    memory = RegionMemory::map(std::move(file).value(), spec, touches,
                               pins.charge(64 * kPage).value(), &lasting);
    const bool is_refused = memory.status() == Status::unsupported;
    ::_exit(is_refused && memory.error().context.find("mode") != std::string::npos ? 42 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 42);
}

TEST_CASE("a mapped file that becomes invisible is not mapped once more") {
  using namespace region_memory_test;
  if (::getuid() != 0) {
    MESSAGE("skipped: changing the user needs root");
    return;
  }
  const auto as = [](uid_t uid) { REQUIRE(::seteuid(uid) == 0); };
  Fixture fixture;
  MappedFiles lasting;
  auto fd = plain_memfd(kPage, MFD_ALLOW_SEALING);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  RegionMemory::Spec spec;
  spec.length = kPage;
  as(54321);
  const auto first = fixture.map(duplicate(fd.get()), spec, &lasting);
  const auto second = fixture.map(duplicate(fd.get()), spec, &lasting);
  as(0);
  REQUIRE((first && second));
  REQUIRE(::fchmod(fd.get(), 0600) == 0);
  as(54321);
  const auto third = fixture.map(duplicate(fd.get()), spec, &lasting);
  as(0);
  CHECK(third.status() == Status::unsupported);
}

TEST_CASE("pin budgets count in the session, the tenant and the daemon, or nowhere") {
  using namespace region_memory_test;
  PinBudget daemon("daemon", 1000, 5);
  PinBudget tenant("tenant a", 800, 5, &daemon);
  PinBudget session("session 1", 800, 2, &tenant);
  PinBudget other("session 2", 10'000, 100, &tenant);
  {
    auto first = session.charge(300);
    auto second = session.charge(300);
    REQUIRE(first);
    REQUIRE(second);
    CHECK(daemon.bytes() == 600);
    CHECK(daemon.regions() == 2);

    const auto third = session.charge(1);
    CHECK(third.status() == Status::out_of_memory);
    CHECK(third.error().context.find("session 1") != std::string::npos);
    const auto elsewhere = other.charge(300);
    CHECK(elsewhere.status() == Status::out_of_memory);
    CHECK(elsewhere.error().context.find("tenant a") != std::string::npos);
    CHECK(other.charge(UINT64_MAX).status() == Status::out_of_memory);
    CHECK(other.bytes() == 0);
    CHECK(other.regions() == 0);
    CHECK(daemon.bytes() == 600);

    PinCharge moved = std::move(first).value();
    CHECK(daemon.regions() == 2);
  }
  CHECK(daemon.bytes() == 0);
  CHECK(daemon.regions() == 0);
  CHECK(session.regions() == 0);
}

TEST_CASE("a hundred thousand small registrations end at the count, not at the machine's limits") {
  using namespace region_memory_test;
  PinBudget session("session", 1ull << 40, 4096);
  std::vector<PinCharge> charges;
  std::uint32_t refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    auto charge = session.charge(kPage);
    if (charge)
      charges.push_back(std::move(charge).value());
    else
      ++refused;
  }
  CHECK(charges.size() == 4096);
  CHECK(refused == 95'904);
}
