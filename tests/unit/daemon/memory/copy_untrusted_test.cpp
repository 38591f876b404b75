#include "daemon/memory/copy_untrusted.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "daemon/memory/fault_guard.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace copy_untrusted_test {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Status;

// Runs `body` in a child and returns how that ended.
template <typename Body>
int ending_of(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace copy_untrusted_test

TEST_CASE("bytes go both ways between a region and private memory, at any offset") {
  using namespace copy_untrusted_test;
  Fixture fixture;
  auto fd = plain_memfd(64 * kPage);
  auto memory = fixture.region(fd.get(), 60 * kPage - 100, kPage + 50);
  const Slice slice{&memory->region(), 1000, 50 * kPage};

  std::vector<std::byte> sent(slice.length);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 / 3);
  REQUIRE(copy_untrusted(slice, 0, sent.data(), sent.size()) == Status::ok);

  // What the client sees in its file, at the place that all the offsets add up to.
  std::vector<std::byte> seen(sent.size());
  REQUIRE(::pread(fd.get(), seen.data(), seen.size(), kPage + 50 + 1000) ==
          static_cast<ssize_t>(seen.size()));
  CHECK(seen == sent);

  std::vector<std::byte> back(777);
  REQUIRE(copy_untrusted(back.data(), slice, 12345, back.size()) == Status::ok);
  CHECK(std::memcmp(back.data(), sent.data() + 12345, back.size()) == 0);
}

TEST_CASE("a region that was truncated fails the copy, and only the copy") {
  using namespace copy_untrusted_test;
  Fixture fixture;
  auto fd = plain_memfd(8 * kPage);
  auto memory = fixture.region(fd.get(), 8 * kPage);
  CHECK(memory->region().can_fault);
  std::vector<std::byte> own(8 * kPage);
  REQUIRE(copy_untrusted(own.data(), whole(*memory), 0, own.size()) == Status::ok);

  REQUIRE(::ftruncate(fd.get(), 4 * kPage) == 0);
  for (int round = 0; round < 3; ++round) {
    CHECK(copy_untrusted(own.data(), whole(*memory), 0, own.size()) == Status::transfer_failed);
    CHECK(copy_untrusted(whole(*memory), 0, own.data(), own.size()) == Status::transfer_failed);
    CHECK(copy_untrusted(own.data(), whole(*memory), 4 * kPage + 100, 1) ==
          Status::transfer_failed);
    CHECK(copy_untrusted(own.data(), whole(*memory), 0, 4 * kPage) == Status::ok);
  }
}

TEST_CASE("truncation and growth at full speed in another thread never kill the copier") {
  using namespace copy_untrusted_test;
  Fixture fixture;
  auto fd = plain_memfd(32 * kPage);
  // A region for each copier: the same bytes at two addresses.
  const auto first_region = fixture.region(fd.get(), 32 * kPage);
  const auto second_region = fixture.region(fd.get(), 32 * kPage);
  std::atomic<bool> stop{false};
  std::thread client([&] {
    while (!stop.load()) {
      (void)!::ftruncate(fd.get(), 0);
      (void)!::ftruncate(fd.get(), 32 * kPage);
    }
  });
  // Two copiers: the recovery point belongs to the thread.
  std::atomic<int> failed{0};
  auto copier = [&](const RegionMemory& memory) {
    std::vector<std::byte> own(32 * kPage);
    // Until the race was won at least once, however the machine schedules.
    for (int i = 0; i < 3000 || (failed == 0 && i < 3'000'000); ++i) {
      const Status in = copy_untrusted(own.data(), whole(memory), 0, own.size());
      const Status out = copy_untrusted(whole(memory), 0, own.data(), own.size());
      if (in == Status::transfer_failed || out == Status::transfer_failed) ++failed;
    }
  };
  std::thread second([&] { copier(*second_region); });
  copier(*first_region);
  second.join();
  stop = true;
  client.join();
  CHECK(failed.load() > 0);
}

TEST_CASE("a fault outside of the client's bytes ends the process") {
  using namespace copy_untrusted_test;
  // Everything is made in the child: a fork does not inherit regions.
  int ending = 0;
  SUBCASE("while a copy of another range is under way") {
    ending = ending_of([] {
      Fixture fixture;
      auto fine = fixture.region(plain_memfd(4 * kPage).get(), 4 * kPage);
      auto fd = plain_memfd(4 * kPage);
      auto broken = fixture.region(fd.get(), 4 * kPage);
      (void)!::ftruncate(fd.get(), 0);
      // The private side is what broke here; the client's side is fine.
      (void)FaultGuard::copy(broken->region().base, fine->region().base, kPage,
                             fine->region().base);
    });
  }
  SUBCASE("after a copy of the same range has ended") {
    ending = ending_of([] {
      Fixture fixture;
      auto fd = plain_memfd(4 * kPage);
      auto broken = fixture.region(fd.get(), 4 * kPage);
      std::vector<std::byte> own(kPage);
      (void)copy_untrusted(own.data(), whole(*broken), 0, kPage);
      (void)!::ftruncate(fd.get(), 0);
      if (copy_untrusted(own.data(), whole(*broken), 0, kPage) == Status::ok) ::_exit(1);
      *reinterpret_cast<volatile char*>(broken->region().base) = 1;
    });
  }
  SUBCASE("a signal that somebody sends") {
    ending = ending_of([] {
      FaultGuard::install();
      ::kill(::getpid(), SIGBUS);
    });
  }
  REQUIRE(WIFSIGNALED(ending));
  CHECK(WTERMSIG(ending) == SIGBUS);
}

TEST_CASE("absent pages are touched within the budget and not beyond it") {
  using namespace copy_untrusted_test;
  Fixture fixture(10 * kPage);
  auto fd = plain_memfd(64ull << 30);
  auto memory = fixture.region(fd.get(), 64ull << 30);
  std::vector<std::byte> own(16 * kPage);

  CHECK(copy_untrusted(own.data(), whole(*memory), 0, 8 * kPage) == Status::ok);
  CHECK(fixture.touches.left_bytes() == 2 * kPage);
  CHECK(copy_untrusted(own.data(), whole(*memory), 0, 8 * kPage) == Status::ok);  // present by now
  CHECK(fixture.touches.left_bytes() == 2 * kPage);
  CHECK(copy_untrusted(whole(*memory), 32ull << 30, own.data(), 16 * kPage) ==
        Status::out_of_memory);
  CHECK(fixture.touches.left_bytes() == 2 * kPage);
  CHECK(memory->region().pages->has_refused());

  // Nothing was touched by the refused one.
  struct stat facts {};
  REQUIRE(::fstat(fd.get(), &facts) == 0);
  CHECK(facts.st_blocks * 512 == 8 * kPage);

  // What the client makes present itself costs nothing.
  REQUIRE(::pwrite(fd.get(), own.data(), own.size(), 32ll << 30) ==
          static_cast<ssize_t>(own.size()));
  CHECK(copy_untrusted(whole(*memory), 32ull << 30, own.data(), 16 * kPage) == Status::ok);
  CHECK(fixture.touches.left_bytes() == 2 * kPage);
}

TEST_CASE("pages that were seen once and punched out count again, unless they can not be") {
  using namespace copy_untrusted_test;
  Fixture fixture(0);
  std::vector<std::byte> own(4 * kPage, std::byte{1});
  const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

  auto open_fd = plain_memfd(4 * kPage);
  REQUIRE(::pwrite(open_fd.get(), own.data(), own.size(), 0) == 4 * kPage);
  auto open_region = fixture.region(open_fd.get(), 4 * kPage);
  CHECK(copy_untrusted(own.data(), whole(*open_region), 0, own.size()) == Status::ok);
  REQUIRE(::fallocate(open_fd.get(), punch, 0, kPage) == 0);
  CHECK(copy_untrusted(own.data(), whole(*open_region), 0, own.size()) == Status::out_of_memory);

  auto sealed_fd = plain_memfd(4 * kPage, MFD_ALLOW_SEALING);
  REQUIRE(::pwrite(sealed_fd.get(), own.data(), own.size(), 0) == 4 * kPage);
  void* client = ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, sealed_fd.get(), 0);
  REQUIRE(client != MAP_FAILED);
  REQUIRE(::fcntl(sealed_fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  MappedFiles lasting;
  auto sealed_region = fixture.region(sealed_fd.get(), 4 * kPage, 0, &lasting);
  CHECK_FALSE(sealed_region->region().can_fault);
  CHECK(::fallocate(sealed_fd.get(), punch, 0, kPage) != 0);
  CHECK(::madvise(client, kPage, MADV_REMOVE) != 0);
  CHECK(copy_untrusted(own.data(), whole(*sealed_region), 0, own.size()) == Status::ok);
  ::munmap(client, 4 * kPage);
}

TEST_CASE("a region that is not mapped here is not copied here") {
  using namespace copy_untrusted_test;
  RegionMemory::Spec spec;
  spec.length = kPage;
  spec.kind = RegionKind::foreign;
  auto memory = RegionMemory::copied(spec, {}, nullptr);
  std::byte own{};
  CHECK(copy_untrusted(&own, whole(*memory), 0, 1) == Status::unsupported);
  CHECK(copy_untrusted(&own, whole(*memory), 0, 0) == Status::ok);
}

TEST_CASE("what the kernel wrote into a slice is shown where it lies, until it vanishes") {
  using namespace copy_untrusted_test;
  Fixture fixture;
  auto fd = plain_memfd(8 * kPage);
  auto memory = fixture.region(fd.get(), 8 * kPage);
  const Slice slice{&memory->region(), 100, 4 * kPage};
  Status status = Status::transfer_failed;
  std::byte* const target = kernel_place(slice, 50, 3 * kPage, status);
  REQUIRE(target == memory->region().base + 150);
  CHECK(status == Status::ok);
  const std::vector<std::byte> sent(3 * kPage, std::byte{0x42});
  REQUIRE(::pwrite(fd.get(), sent.data(), sent.size(), 150) == static_cast<ssize_t>(sent.size()));

  std::vector<std::byte> seen;
  const BlockSink sink{[](void* to, const std::byte* block, std::size_t bytes) noexcept {
                         static_cast<std::vector<std::byte>*>(to)->assign(block, block + bytes);
                       },
                       &seen};
  CHECK(show_untrusted(slice, 50, 3 * kPage, sink) == Status::ok);
  CHECK(seen == sent);

  const BlockSink reader{[](void*, const std::byte* block, std::size_t bytes) noexcept {
                           for (std::size_t i = 0; i < bytes; i += kPage) {
                             static_cast<void>(*static_cast<const volatile std::byte*>(block + i));
                           }
                         },
                         nullptr};
  REQUIRE(::ftruncate(fd.get(), kPage) == 0);
  CHECK(show_untrusted(slice, 50, 3 * kPage, reader) == Status::transfer_failed);
  CHECK(show_untrusted(slice, 50, 100, reader) == Status::ok);
}
