#include "daemon/store/space/arena.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace simm::store::testing {

TEST_CASE("an arena is whole pages, zeroed, and can not change its size") {
  ArenaConfig config;
  config.bytes = 5000;
  auto made = Arena::create(config);
  REQUIRE(made.has_value());
  const Arena arena = std::move(made).value();
  REQUIRE(arena.bytes().size() == 8192);
  CHECK(arena.bytes()[8191] == std::byte{0});
  const std::string path = "/proc/self/fd/" + std::to_string(arena.fd());
  const int writer = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(writer >= 0);
  CHECK(::ftruncate(writer, 4096) != 0);
  CHECK(::ftruncate(writer, 16384) != 0);
  ::close(writer);
  CHECK((::fcntl(arena.fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(arena.note().empty());
}

TEST_CASE(
    "another process that gets the fd sees the same bytes and can not write; a forked one has no "
    "mapping") {
  ArenaConfig config;
  config.bytes = 4096;
  auto made = Arena::create(config);
  REQUIRE(made.has_value());
  made->bytes()[7] = std::byte{42};
  const pid_t child = ::fork();
  if (child == 0) {
    if (::msync(made->bytes().data(), 4096, MS_ASYNC) == 0) ::_exit(1);
    constexpr int kBoth = PROT_READ | PROT_WRITE;
    if (::mmap(nullptr, 4096, kBoth, MAP_SHARED, made->fd(), 0) != MAP_FAILED) ::_exit(2);
    void* seen = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, made->fd(), 0);
    if (seen == MAP_FAILED) ::_exit(3);
    if (::mprotect(seen, 4096, kBoth) == 0) ::_exit(4);
    if (::pwrite(made->fd(), "x", 1, 7) >= 0) ::_exit(5);
    ::_exit(static_cast<unsigned char*>(seen)[7] == 42 ? 0 : 6);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(made->bytes()[7] == std::byte{42});
}

TEST_CASE("what is stored stays out of core files") {
  ArenaConfig config;
  config.bytes = 1 << 20;
  auto made = Arena::create(config);
  REQUIRE(made.has_value());
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(made->bytes().data()) << '-';
  std::ifstream maps("/proc/self/smaps");
  bool is_ours = false;
  std::string flags;
  for (std::string line; std::getline(maps, line);) {
    if (line.rfind("VmFlags:", 0) != 0) {
      const bool is_range = line.find('-') < line.find(' ');
      if (is_range) is_ours = line.rfind(start.str(), 0) == 0;
    } else if (is_ours) {
      flags = line;
    }
  }
  CHECK(flags.find(" dd") != std::string::npos);
}

TEST_CASE("huge pages are used, or the note says why not") {
  ArenaConfig config;
  config.bytes = std::uint64_t{1} << 20;
  config.hugepages = true;
  auto made = Arena::create(config);
  REQUIRE(made.has_value());
  CHECK(made->uses_hugepages() == made->note().empty());
  made->bytes()[made->bytes().size() - 1] = std::byte{1};
  if (made->uses_hugepages()) CHECK(made->bytes().size() == 2u << 20);
}

TEST_CASE("more huge pages than any machine has fall back to normal ones") {
  ArenaConfig config;
  config.bytes = std::uint64_t{1} << 45;  // 32 TiB, never touched
  config.hugepages = true;
  auto made = Arena::create(config);
  REQUIRE(made.has_value());
  CHECK_FALSE(made->uses_hugepages());
  CHECK(made->note().find("huge pages") != std::string::npos);
  CHECK(made->bytes().size() == config.bytes);
}

TEST_CASE("each part of an arena prefers its node, or says why it does not") {
  constexpr std::uint64_t kPartBytes = 2 << 20;
  ArenaConfig config;
  config.bytes = 3 * kPartBytes;
  config.part_bytes = kPartBytes;
  config.part_nodes = {0, -1, 9999};
  const auto made = Arena::create(config);
  REQUIRE(made.has_value());
  CHECK_FALSE(made->place_note().empty());
  if (made->place_note().find("no NUMA policy") != std::string::npos) {
    CHECK(made->parts_placed() == 0);
    return;
  }
  CHECK(made->place_note() == "there is no NUMA node 9999");
  CHECK(made->parts_placed() == 1);
  // Of any byte of the part, and of none beside it.
  const auto policy_at = [&](std::uint64_t offset) {
    int policy = -1;
    REQUIRE(::get_mempolicy(&policy, nullptr, 0, made->bytes().data() + offset, MPOL_F_ADDR) == 0);
    return policy;
  };
  CHECK(policy_at(0) == MPOL_PREFERRED);
  CHECK(policy_at(kPartBytes - 1) == MPOL_PREFERRED);
  CHECK(policy_at(kPartBytes) == MPOL_DEFAULT);
  CHECK(policy_at(2 * kPartBytes) == MPOL_DEFAULT);
}

TEST_CASE("sizes and nodes that can not be are refused in words") {
  CHECK(Arena::create(ArenaConfig{}).status() == Status::invalid_argument);
  ArenaConfig config;
  config.bytes = 4096;
  config.numa_node = 9999;
  const auto made = Arena::create(config);
  // A kernel without NUMA policy can not bind, and says so; any other knows no node 9999.
  if (made.has_value()) {
    CHECK(made->note().find("NUMA") != std::string::npos);
  } else {
    CHECK(made.error().context.find("9999") != std::string::npos);
  }
}

}  // namespace simm::store::testing
