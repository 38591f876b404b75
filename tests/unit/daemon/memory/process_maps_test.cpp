#include "daemon/memory/helper/process_maps.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/unit/daemon/memory/memory_fixture.h"

namespace process_maps_test {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Expected;
using simm::Status;

Expected<SharedRange> decide(std::uint64_t address, std::uint64_t length,
                             const std::vector<std::string>& lines) {
  SharedRangeFinder finder(address, length);
  for (const std::string& text : lines) {
    MapsLine line;
    REQUIRE(parse_maps_line(text, line));
    if (!finder.add(line)) break;
  }
  return finder.result();
}

}  // namespace process_maps_test

TEST_CASE("lines of /proc/<pid>/maps are read, other lines are not") {
  using namespace process_maps_test;
  MapsLine line;
  REQUIRE(parse_maps_line("7f2a419e7000-7f2a419e9000 rw-s 00002000 0a:1f 1159   /memfd:x (deleted)",
                          line));
  CHECK(line.begin == 0x7f2a419e7000);
  CHECK(line.end == 0x7f2a419e9000);
  CHECK(line.file_offset == 0x2000);
  CHECK(line.device == makedev(0x0a, 0x1f));
  CHECK(line.inode == 1159);
  CHECK(line.is_shared_writable);
  REQUIRE(parse_maps_line("1000-2000 rw-s 00000000 00:00 0", line));
  CHECK(line.inode == 0);
  for (const char* other :
       {"1000-2000 r--s", "1000-2000 rwxs", "1000-2000 rw-p", "1000-2000 -w-s"}) {
    REQUIRE(parse_maps_line(std::string(other) + " 00000000 00:01 5 /x", line));
    CHECK_FALSE(line.is_shared_writable);
  }
  for (const char* bad :
       {"", "1000", "1000-", "1000-2000", "1000-2000 rw-s", "2000-1000 rw-s 0 0:0 0",
        "1000-2000 rw-s zz 00:00 0", "1000-2000 rw-s 0 00-00 0", "1000-2000 rw-s 0 00:00 ",
        "1000-2000 rw-s 0 00:00 5x", "1000-2000 rw-sx 0 00:00 0",
        "fffffffffffffffff-1 rw-s 0 00:00 0"}) {
    CHECK_FALSE(parse_maps_line(bad, line));
  }
}

TEST_CASE("a range qualifies when it is one file, shared and writable, without gaps") {
  using namespace process_maps_test;
  const std::string before = "0800-1000 rw-p 00000000 00:00 0";
  const std::string first = "1000-3000 rw-s 00004000 00:01 7 /a";
  const std::string second = "3000-5000 rw-s 00006000 00:01 7 /a";
  const auto range = decide(0x1800, 0x3000, {before, first, second});
  REQUIRE(range);
  CHECK(range->file_offset == 0x4800);
  CHECK(range->first.begin == 0x1000);
  CHECK(decide(0x1000, 0x4000, {first, second}));
  CHECK(decide(0x3000, 0x2000, {first, second})->file_offset == 0x6000);

  CHECK_FALSE(decide(0x1000, 0x4001, {first, second}));
  CHECK_FALSE(decide(0x0fff, 0x10, {before, first}));
  CHECK_FALSE(decide(0x6000, 0x10, {first, second}));
  CHECK_FALSE(decide(0x0100, 0x10, {}));
  const char* const seconds[] = {"3001-5000 rw-s 00006001 00:01 7 /a",   // a gap
                                 "3000-5000 r--s 00006000 00:01 7 /a",   // may only be read
                                 "3000-5000 rw-p 00006000 00:01 7 /a",   // private
                                 "3000-5000 rw-s 00006000 00:02 7 /a",   // another device
                                 "3000-5000 rw-s 00006000 00:01 8 /a",   // another file
                                 "3000-5000 rw-s 00007000 00:01 7 /a"};  // another place of it
  for (const char* other : seconds) {
    CHECK(decide(0x1000, 0x4000, {first, other}).status() == Status::permission_denied);
    CHECK(decide(0x1000, 0x2000, {first, other}));
  }
  CHECK_FALSE(decide(0x1000, 0x10, {"1000-3000 rw-s 00000000 00:00 0"}));
}

TEST_CASE("the range of a real mapping leads to its file") {
  using namespace process_maps_test;
  auto fd = plain_memfd(16 * kPage);
  void* const mapped = ::mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(),
                              4 * static_cast<off_t>(kPage));
  REQUIRE(mapped != MAP_FAILED);
  const auto address = reinterpret_cast<std::uint64_t>(mapped);
  const auto range = find_shared_range(::getpid(), address + 100, 7 * kPage);
  REQUIRE(range);
  struct stat facts {};
  REQUIRE(::fstat(fd.get(), &facts) == 0);
  CHECK(range->first.inode == facts.st_ino);
  CHECK(range->first.device == facts.st_dev);
  CHECK(range->file_offset == 4 * kPage + 100);

  // One page of it read-only: split into three mappings, of which one does not qualify.
  REQUIRE(::mprotect(static_cast<char*>(mapped) + 4 * kPage, kPage, PROT_READ) == 0);
  CHECK_FALSE(find_shared_range(::getpid(), address, 8 * kPage));
  CHECK(find_shared_range(::getpid(), address, 4 * kPage));
  REQUIRE(::mprotect(static_cast<char*>(mapped) + 4 * kPage, kPage, PROT_READ | PROT_WRITE) == 0);
  CHECK(find_shared_range(::getpid(), address, 8 * kPage));
  ::munmap(mapped, 8 * kPage);
  CHECK_FALSE(find_shared_range(::getpid(), address, kPage));
  CHECK_FALSE(find_shared_range(0x7fffffff, address, kPage));
}
