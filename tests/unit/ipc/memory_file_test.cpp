#include "ipc/memory_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ipc/fd_socket.h"
#include "ipc/mapping.h"

namespace memory_file_test {

using namespace simm::ipc;
using simm::Expected;
using simm::Status;

constexpr std::uint64_t kBytes = 64 * 1024;

MemoryFile make(bool prefault = true) {
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", kBytes, false, prefault});
  REQUIRE(file);
  return std::move(file).value();
}

UniqueFd open_path(const char* path, int flags) {
  return UniqueFd(::open(path, flags | O_CLOEXEC, 0600));
}

Status inspected(UniqueFd fd) {
  REQUIRE(fd.valid());
  return MemoryFile::inspect(std::move(fd)).status();
}

}  // namespace memory_file_test

TEST_CASE("a memory file has the size it was made with, in whole pages, present and fixed") {
  using namespace memory_file_test;
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", kBytes - 1, false, true});
  REQUIRE(file);
  CHECK(file->bytes() == kBytes);
  CHECK(file->page_bytes() == static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  CHECK_FALSE(file->huge_pages());
  CHECK(file->cannot_shrink());

  struct stat facts {};
  REQUIRE(::fstat(file->fd(), &facts) == 0);
  CHECK(facts.st_size == kBytes);
  CHECK(facts.st_blocks * 512 == kBytes);
  CHECK((::fcntl(file->fd(), F_GETFD) & FD_CLOEXEC) != 0);

  CHECK(::ftruncate(file->fd(), 0) != 0);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(file->fd(), 2 * kBytes) != 0);
  CHECK(errno == EPERM);
}

TEST_CASE("without prefault no page of a memory file exists") {
  using namespace memory_file_test;
  MemoryFile file = make(false);
  struct stat facts {};
  REQUIRE(::fstat(file.fd(), &facts) == 0);
  CHECK(facts.st_blocks == 0);
}

TEST_CASE("a memory file of no bytes or of too many is refused") {
  using namespace memory_file_test;
  CHECK(MemoryFile::create({"simm-test", 0, false, false}).status() == Status::invalid_argument);
  CHECK(MemoryFile::create({"simm-test", UINT64_MAX, false, false}).status() ==
        Status::invalid_argument);
}

TEST_CASE("prefaulting more memory than there is ends as no_space, not as a signal") {
  using namespace memory_file_test;
  // Nothing but our own look at the memory there is stands between this and the kernel's killer.
  Expected<MemoryFile> file =
      MemoryFile::create({"simm-test", std::uint64_t{1} << 62, false, true});
  REQUIRE_FALSE(file);
  CHECK(file.status() == Status::no_space);
}

TEST_CASE("huge pages that do not exist fall back to normal pages") {
  using namespace memory_file_test;
  // More than any test machine has set aside, and never touched as normal pages.
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", 1ull << 40, true, false});
  REQUIRE(file);
  CHECK_FALSE(file->huge_pages());
  CHECK(file->bytes() == 1ull << 40);
}

TEST_CASE("seal sequence: mapped first, sealed after, and nobody punches, writes or maps anew") {
  using namespace memory_file_test;
  MemoryFile file = make();
  Expected<Mapping> daemon = Mapping::map(file.fd(), 0, kBytes);
  Expected<Mapping> client = Mapping::map(file.fd(), 0, kBytes);
  REQUIRE(daemon);
  REQUIRE(client);
  client->data()[4096] = std::byte{42};

  // What the final seals are for: until they are set a hole can be punched under both mappings.
  const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  REQUIRE(::fallocate(file.fd(), punch, 8192, 4096) == 0);

  REQUIRE(file.seal_final());
  CHECK(::fallocate(file.fd(), punch, 4096, 4096) != 0);
  CHECK(errno == EPERM);
  CHECK(::pwrite(file.fd(), "x", 1, 0) != 1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(file.fd(), 0) != 0);
  CHECK(errno == EPERM);
  CHECK(::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
  CHECK(errno == EPERM);
  CHECK_FALSE(Mapping::map(file.fd(), 0, kBytes));
  CHECK(Mapping::map(file.fd(), 0, kBytes, {.writable = false}));

  CHECK(daemon->data()[4096] == std::byte{42});
  client->data()[0] = std::byte{7};
  CHECK(daemon->data()[0] == std::byte{7});
}

TEST_CASE("another process that holds the descriptor is bound by the seals as well") {
  using namespace memory_file_test;
  MemoryFile file = make();
  REQUIRE(file.seal_final());
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
  UniqueFd again = open_path(path.c_str(), O_RDWR);
  REQUIRE(again.valid());
  CHECK(::pwrite(again.get(), "x", 1, 0) != 1);
  CHECK_FALSE(Mapping::map(again.get(), 0, kBytes));
}

TEST_CASE("a file that is sealed whole tells its first hole, and keeps its pages") {
  using namespace memory_file_test;
  constexpr std::uint64_t kPage = 4096;
  auto file = MemoryFile::create({"whole", 4 * kPage, false, true});
  REQUIRE(file.has_value());
  auto mapping = Mapping::map(file->fd(), 0, file->bytes());
  REQUIRE(mapping.has_value());
  // Pages that nobody has written are not there yet, even if the file has room for them.
  CHECK(file->first_hole().value() == 0);
  std::memset(mapping->data(), 1, 4 * kPage);
  CHECK(file->first_hole().value() == 4 * kPage);
  const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  REQUIRE(::fallocate(file->fd(), punch, 2 * kPage, kPage) == 0);
  CHECK(file->first_hole().value() == 2 * kPage);
  mapping->data()[2 * kPage] = std::byte{1};
  CHECK(file->first_hole().value() == 4 * kPage);
  REQUIRE(file->seal_whole().has_value());
  CHECK(::fallocate(file->fd(), punch, 0, kPage) != 0);
  CHECK(::ftruncate(file->fd(), 0) != 0);
  CHECK_FALSE(Mapping::map(file->fd(), 0, kPage).has_value());
  CHECK_FALSE(file->seal_whole().has_value());  // once
}

TEST_CASE("inspect takes a memfd, sealed or not, and tells whether it can shrink") {
  using namespace memory_file_test;
  UniqueFd open_memfd(::memfd_create("simm-test", MFD_CLOEXEC));
  REQUIRE(::ftruncate(open_memfd.get(), 12345) == 0);
  Expected<MemoryFile> file = MemoryFile::inspect(std::move(open_memfd));
  REQUIRE(file);
  CHECK(file->bytes() == 12345);
  CHECK_FALSE(file->cannot_shrink());

  Expected<MemoryFile> sealed = MemoryFile::inspect(make().release());
  REQUIRE(sealed);
  CHECK(sealed->cannot_shrink());
}

TEST_CASE("inspect takes a file of /dev/shm") {
  using namespace memory_file_test;
  UniqueFd fd(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) {
    MESSAGE("skipped: /dev/shm is not writable here");
    return;
  }
  REQUIRE(::ftruncate(fd.get(), 4096) == 0);
  Expected<MemoryFile> file = MemoryFile::inspect(std::move(fd));
  REQUIRE(file);
  CHECK_FALSE(file->cannot_shrink());
  CHECK(file->seals() == F_SEAL_SEAL);
}

TEST_CASE("inspect refuses every odd kind of descriptor") {
  using namespace memory_file_test;
  SUBCASE("pipe") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    UniqueFd other(ends[1]);
    CHECK(inspected(UniqueFd(ends[0])) == Status::invalid_argument);
  }
  SUBCASE("directory") {
    CHECK(inspected(open_path("/dev/shm", O_RDONLY | O_DIRECTORY)) == Status::invalid_argument);
  }
  SUBCASE("/proc file") {
    CHECK(inspected(open_path("/proc/self/mem", O_RDWR)) == Status::invalid_argument);
  }
  SUBCASE("sysfs file") {
    CHECK(inspected(open_path("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY)) ==
          Status::invalid_argument);
  }
  SUBCASE("character device") {
    CHECK(inspected(open_path("/dev/zero", O_RDWR)) == Status::invalid_argument);
  }
  SUBCASE("socket") {
    auto pair = FdSocket::pair();
    REQUIRE(pair);
    CHECK(inspected(pair->first.release()) == Status::invalid_argument);
  }
  SUBCASE("eventfd") {
    CHECK(inspected(UniqueFd(::eventfd(0, EFD_CLOEXEC))) == Status::invalid_argument);
  }
  SUBCASE("disk file") {
    // The test program itself lies on a disk, whatever /tmp is.
    CHECK(inspected(open_path("/proc/self/exe", O_RDONLY)) == Status::invalid_argument);
  }
  SUBCASE("path-only descriptor of a memfd") {
    MemoryFile file = make();
    const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
    CHECK(inspected(open_path(path.c_str(), O_PATH)) != Status::ok);
  }
  SUBCASE("memfd that is open for reading only") {
    MemoryFile file = make();
    const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
    CHECK(inspected(open_path(path.c_str(), O_RDONLY)) == Status::permission_denied);
  }
  SUBCASE("closed descriptor") {
    CHECK_FALSE(MemoryFile::inspect(UniqueFd()));
  }
}

TEST_CASE("inspect closes what it refuses") {
  using namespace memory_file_test;
  UniqueFd odd(::eventfd(0, EFD_CLOEXEC));
  const int number = odd.get();
  CHECK_FALSE(MemoryFile::inspect(std::move(odd)));
  CHECK(::fcntl(number, F_GETFD) == -1);
}
