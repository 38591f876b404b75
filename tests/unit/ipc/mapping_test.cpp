#include "ipc/mapping.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ipc/memory_file.h"

namespace mapping_test {

using namespace simm::ipc;
using simm::Expected;
using simm::Status;

bool is_mapped(const void* address) {
  unsigned char present = 0;
  // SAFETY: mincore only looks the address up; it takes a non-const pointer for historical reasons.
  return ::mincore(const_cast<void*>(address), 1, &present) == 0;
}

}  // namespace mapping_test

TEST_CASE("a mapping shows the file from its offset on, and goes with its owner") {
  using namespace mapping_test;
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", 3 * 4096, false, false});
  REQUIRE(file);
  REQUIRE(::pwrite(file->fd(), "second page", 11, 4096) == 11);
  const std::byte* address = nullptr;
  {
    Expected<Mapping> mapping = Mapping::map(file->fd(), 4096, 8192);
    REQUIRE(mapping);
    address = mapping->data();
    CHECK(mapping->bytes() == 8192);
    CHECK(std::memcmp(address, "second page", 11) == 0);

    Mapping moved = std::move(mapping).value();
    CHECK(moved.data() == address);
    CHECK(is_mapped(address));
    Mapping target;
    target = std::move(moved);
    CHECK(moved.data() == nullptr);
    CHECK(moved.bytes() == 0);
    CHECK(target.data() == address);
  }
  CHECK_FALSE(is_mapped(address));
}

TEST_CASE("what can not be mapped is an error") {
  using namespace mapping_test;
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", 4096, false, false});
  REQUIRE(file);
  CHECK(Mapping::map(file->fd(), 0, 0).status() == Status::invalid_argument);
  CHECK(Mapping::map(file->fd(), UINT64_MAX, 1).status() == Status::invalid_argument);
  CHECK(Mapping::map(file->fd(), 1ull << 62, 1ull << 62).status() == Status::invalid_argument);
  CHECK(Mapping::map(-1, 0, 4096).status() == Status::io_error);
  CHECK(Mapping::map(file->fd(), 0, 1ull << 60).status() == Status::io_error);
}

TEST_CASE("mapping 100 GiB of a sparse file touches none of it") {
  using namespace mapping_test;
  constexpr std::uint64_t kHuge = 100ull << 30;
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", kHuge, false, false});
  REQUIRE(file);
  Expected<Mapping> mapping = Mapping::map(file->fd(), 0, kHuge);
  REQUIRE(mapping);
  mapping->data()[kHuge - 1] = std::byte{1};
  struct stat facts {};
  REQUIRE(::fstat(file->fd(), &facts) == 0);
  CHECK(facts.st_blocks <= 4096);  // the one page that was written, or one huge page
}

TEST_CASE("a forked child has the mapping unless it was asked not to") {
  using namespace mapping_test;
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", 8192, false, true});
  REQUIRE(file);
  Expected<Mapping> kept = Mapping::map(file->fd(), 0, 4096);
  Expected<Mapping> gone =
      Mapping::map(file->fd(), 4096, 4096, {.dont_fork = true, .dont_dump = true});
  REQUIRE(kept);
  REQUIRE(gone);
  const pid_t child = ::fork();
  if (child == 0) ::_exit((is_mapped(kept->data()) ? 1 : 0) + (is_mapped(gone->data()) ? 2 : 0));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("what a forked child forgets is not unmapped: another mapping may be there by now") {
  using namespace mapping_test;
  Expected<MemoryFile> file = MemoryFile::create({"simm-test", 4096, false, false});
  REQUIRE(file);
  Expected<Mapping> mapping = Mapping::map(file->fd(), 0, 4096);
  REQUIRE(mapping);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const void* const address = mapping->data();
    {
      Mapping inherited = std::move(mapping).value();
      inherited.forget();
      if (inherited.data() != nullptr || inherited.bytes() != 0) ::_exit(1);
    }
    ::_exit(is_mapped(address) ? 0 : 2);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
