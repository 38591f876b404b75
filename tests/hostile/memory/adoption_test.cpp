// Adoption must never open more than the client itself may do.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <fstream>
#include <string>

#include "daemon/memory/copy_untrusted.h"
#include "daemon/memory/helper/adopt_mapping.h"
#include "tests/hostile/memory/attacked_daemon.h"

namespace adoption_attack {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Status;
using simm::ipc::UniqueFd;

constexpr std::uint64_t kBytes = 16 * kPage;

// A file of root's on tmpfs, full of a secret, gone with its owner.
struct RootFile {
  std::string path;
  explicit RootFile(mode_t mode) {
    path = "/dev/shm/simm-root-file-" + std::to_string(::getpid());
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    REQUIRE(fd.valid());
    const std::string secret(kBytes, 's');
    REQUIRE(::write(fd.get(), secret.data(), secret.size()) == static_cast<ssize_t>(kBytes));
    REQUIRE(::fchmod(fd.get(), mode) == 0);
  }
  ~RootFile() { ::unlink(path.c_str()); }
};

char* map_file(int fd, int protection, void* where = nullptr) {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  void* const memory = ::mmap(where, kBytes, protection, MAP_SHARED | fixed, fd, 0);
  if (memory == MAP_FAILED) ::_exit(11);
  return static_cast<char*>(memory);
}

// A client that maps a file by path and says where.
ForkedClientSpec mapper_of(const std::string& path, int flags, int protection) {
  ForkedClientSpec spec;
  spec.set_up = [=] {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
    if (fd < 0) ::_exit(12);
    return report_of(map_file(fd, protection), kBytes);
  };
  return spec;
}

}  // namespace adoption_attack

TEST_CASE("a read-only mapping of a root-owned file is not adopted") {
  using namespace adoption_attack;
  if (!is_root()) return;
  RootFile file(0644);
  AttackedDaemon daemon;
  ForkedClient client(mapper_of(file.path, O_RDONLY, PROT_READ));
  CHECK(contains(daemon.refusal(client), "rw-s"));
}

TEST_CASE("a writable mapping of a file that the client may not open is not adopted") {
  using namespace adoption_attack;
  if (!is_root()) return;
  // It inherited the descriptor. The open runs as the client's user, who is not let in.
  RootFile file(0600);
  AttackedDaemon daemon;
  static int inherited = -1;
  ForkedClientSpec spec;
  spec.before_drop = [&] { inherited = ::open(file.path.c_str(), O_RDWR); };
  spec.set_up = [] { return report_of(map_file(inherited, PROT_READ | PROT_WRITE), kBytes); };
  ForkedClient client(spec);
  CHECK(contains(daemon.refusal(client), "open the mapped file"));
}

TEST_CASE("a memfd that the client may only read is not adopted") {
  using namespace adoption_attack;
  if (!is_root()) return;
  static int read_only = -1;
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.before_drop = [] {
    const int fd = ::memfd_create("of-root", 0);
    if (::ftruncate(fd, kBytes) != 0) ::_exit(13);
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    read_only = ::open(path.c_str(), O_RDONLY);
  };
  spec.set_up = [] { return report_of(map_file(read_only, PROT_READ), kBytes); };
  ForkedClient client(spec);
  CHECK(contains(daemon.refusal(client), "rw-s"));
}

TEST_CASE("memory that is sealed against new writers is staged") {
  using namespace adoption_attack;
  if (!is_root()) return;
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.set_up = [] {
    const int fd = ::memfd_create("sealed", MFD_ALLOW_SEALING);
    if (::ftruncate(fd, kBytes) != 0) ::_exit(13);
    char* const memory = map_file(fd, PROT_READ | PROT_WRITE);
    if (::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) ::_exit(14);
    return report_of(memory, kBytes);
  };
  ForkedClient client(spec);
  auto made = daemon.make(client, simm::ipc::RegionRequestKind::automatic);
  REQUIRE(made);
  CHECK(made->kind == simm::ipc::RegionRequestKind::staged);
  CHECK(daemon.pins.regions() == 0);
}

TEST_CASE("a range that is remapped all the time is refused or is the client's own") {
  using namespace adoption_attack;
  if (!is_root()) return;
  RootFile secret(0644);
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.set_up = [&] {
    static int own = ::memfd_create("own", 0);
    static int root = ::open(secret.path.c_str(), O_RDONLY);
    if (root < 0 || ::ftruncate(own, kBytes) != 0) ::_exit(15);
    char* const memory = map_file(own, PROT_READ | PROT_WRITE);
    std::memset(memory, 'o', kBytes);
    if (::fork() == 0) {  // only to have somebody who answers while this one races
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
    return report_of(memory, kBytes);
  };
  spec.command = [&](char) {
    // Never answers: swaps until it is killed.
    const int own = ::memfd_create("own", 0);
    const int root = ::open(secret.path.c_str(), O_RDONLY);
    if (::ftruncate(own, kBytes) != 0) ::_exit(16);
    // The one mapping of this kind is where set_up put it.
    std::ifstream maps("/proc/self/maps");
    void* where = nullptr;
    for (std::string line; std::getline(maps, line);) {
      if (!contains(line, "memfd:own")) continue;
      where = reinterpret_cast<void*>(std::stoull(line, nullptr, 16));
    }
    std::memset(map_file(own, PROT_READ | PROT_WRITE, where), 'o', kBytes);
    for (;;) {
      map_file(root, PROT_READ, where);
      map_file(own, PROT_READ | PROT_WRITE, where);
    }
  };
  ForkedClient client(spec);
  client.tell('r');
  int adopted = 0;
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    auto made = daemon.make(client, simm::ipc::RegionRequestKind::adopted);
    if (!made) {
      ++refused;
      continue;
    }
    ++adopted;
    std::byte first{};
    REQUIRE(copy_untrusted(&first, whole(*made->memory), 0, 1) == Status::ok);
    REQUIRE(first == std::byte{'o'});
  }
  MESSAGE("adopted its own file " << adopted << " times, refused " << refused << " times");
  CHECK(refused > 0);

  std::ifstream file(secret.path);
  std::string content(kBytes, ' ');
  file.read(content.data(), kBytes);
  CHECK(content == std::string(kBytes, 's'));
}

TEST_CASE("a client that is not dumpable is left alone") {
  using namespace adoption_attack;
  if (!is_root()) return;
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.set_up = [] {
    ::prctl(PR_SET_DUMPABLE, 0);
    return report_of(map_anonymous(kBytes, MAP_SHARED), kBytes);
  };
  ForkedClient client(spec);
  CHECK_FALSE(daemon.refusal(client).empty());
}

TEST_CASE("a client in another pid namespace is looked up by what the kernel recorded") {
  using namespace adoption_attack;
  if (!is_root()) return;
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.before_drop = [] {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(17);
    const pid_t inside = ::fork();
    if (inside != 0) {
      ::waitpid(inside, nullptr, 0);
      ::_exit(0);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getpid() != 1) ::_exit(18);  // what it calls itself means nothing out here
  };
  spec.set_up = [] {
    char* const memory = map_anonymous(kBytes, MAP_SHARED);
    std::strcpy(memory, "inside");
    return report_of(memory, kBytes);
  };
  ForkedClient client(spec);
  CHECK(client.identity->pid() > 1);
  auto made = daemon.make(client, simm::ipc::RegionRequestKind::adopted);
  REQUIRE(made);
  char seen[7] = {};
  REQUIRE(copy_untrusted(reinterpret_cast<std::byte*>(seen), whole(*made->memory), 0, 6) ==
          Status::ok);
  CHECK(std::string(seen) == "inside");
}

TEST_CASE("a disk file is not adopted, and neither is a range where nothing is mapped") {
  using namespace adoption_attack;
  if (!is_root()) return;
  AttackedDaemon daemon;
  {
    ForkedClientSpec spec;
    spec.set_up = [] {
      // The client's own file, on whatever disk the test program lies on.
      const int fd = ::open("/var/tmp", O_TMPFILE | O_RDWR, 0600);
      if (fd < 0 || ::ftruncate(fd, kBytes) != 0) ::_exit(19);
      return report_of(map_file(fd, PROT_READ | PROT_WRITE), kBytes);
    };
    ForkedClient client(spec);
    CHECK(contains(daemon.refusal(client), "tmpfs"));
  }
  {
    ForkedClientSpec spec;
    spec.set_up = [] { return ClientReport{0x1000, kBytes}; };  // nothing there
    ForkedClient client(spec);
    CHECK(contains(daemon.refusal(client), "not mapped"));
  }
  {
    ForkedClientSpec spec;
    spec.set_up = [] { return ClientReport{UINT64_MAX - kBytes, kBytes}; };
    ForkedClient client(spec);
    CHECK(contains(daemon.refusal(client), "not mapped"));
  }
}

TEST_CASE("a mapping that reaches beyond its file is not adopted") {
  using namespace adoption_attack;
  if (!is_root()) return;
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.set_up = [] {
    const int fd = ::memfd_create("short", 0);
    if (::ftruncate(fd, kPage) != 0) ::_exit(20);
    return report_of(map_file(fd, PROT_READ | PROT_WRITE), kBytes);
  };
  ForkedClient client(spec);
  CHECK(contains(daemon.refusal(client), "beyond the end"));
}

TEST_CASE("a client that becomes another user after it connected is not looked into") {
  using namespace adoption_attack;
  if (!is_root()) return;
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.keeps_saved_root = true;
  spec.set_up = [] { return report_of(map_anonymous(kBytes, MAP_SHARED), kBytes); };
  ForkedClient client(spec);
  CHECK(contains(daemon.refusal(client), "another user"));
}

TEST_CASE("another process is not taken for the one that connected") {
  using namespace adoption_attack;
  ForkedClientSpec spec;
  spec.uid = ::getuid();
  spec.gid = ::getgid();
  spec.set_up = [] { return report_of(map_anonymous(kBytes, MAP_SHARED), kBytes); };
  ForkedClient client(spec);
  ForkedClient other(spec);
  const auto& identity = *client.identity;
  const ClientProcess right{identity.pidfd(), identity.pid(), identity.uid(),
                            identity.start_time_ticks()};
  CHECK(check_before(right));
  CHECK(check_after(right));
  ClientProcess wrong = right;
  wrong.start_time_ticks += 1;
  CHECK(contains(check_before(wrong).error().context, "start time"));
  wrong = right;
  wrong.pid = other.pid();
  CHECK(contains(check_before(wrong).error().context, "pid"));
  wrong = right;
  wrong.uid += 1;
  CHECK(contains(check_before(wrong).error().context, "user"));
  wrong = right;
  wrong.pidfd = -1;
  CHECK_FALSE(check_before(wrong));
  client.end();
  CHECK_FALSE(check_after(right));
  CHECK_FALSE(check_before(right));
}

TEST_CASE("a process that was given the number of a dead client is not adopted from") {
  using namespace adoption_attack;
  if (!is_root()) return;
  AttackedDaemon daemon;
  ForkedClientSpec spec;
  spec.set_up = [] { return report_of(map_anonymous(kBytes, MAP_SHARED), kBytes); };
  ForkedClient client(spec);
  REQUIRE(daemon.refusal(client).empty());
  const pid_t number = client.pid();
  client.end();
  // A successor with the same number, memory at the same place and the same user.
  pid_t successor = -1;
  for (int attempt = 0; attempt < 500 && successor != number; ++attempt) {
    std::ofstream("/proc/sys/kernel/ns_last_pid") << number - 1;
    successor = ::fork();
    if (successor == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getpid() != number) ::_exit(0);
      (void)::mmap(reinterpret_cast<void*>(client.address()), kBytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (::setgid(spec.gid) != 0 || ::setuid(spec.uid) != 0) ::_exit(1);
      ::prctl(PR_SET_DUMPABLE, 1);
      for (;;) ::pause();
    }
    if (successor != number) ::waitpid(successor, nullptr, 0);
  }
  if (successor != number) {
    MESSAGE("skipped: the machine did not give the number out again");
    return;
  }
  ::usleep(20'000);  // lets it map and change its user: without that it would be refused too easily
  CHECK_FALSE(daemon.refusal(client).empty());
  ::kill(successor, SIGKILL);
  ::waitpid(successor, nullptr, 0);
}

TEST_CASE("the helper can make no socket, run no program, and open no file of others") {
  using namespace adoption_attack;
  if (!is_root()) return;
  RootFile file(0600);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter_helper_sandbox({})) ::_exit(1);
    if (::socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM) ::_exit(2);
    if (::socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM) ::_exit(3);
    char* const arguments[] = {nullptr};
    ::execve("/bin/true", arguments, arguments);
    if (errno != EPERM) ::_exit(4);
    if (!act_as_client(12345, 12345)) ::_exit(5);
    if (::open(file.path.c_str(), O_RDONLY) >= 0 || errno != EACCES) ::_exit(6);
    if (::open("/etc/shadow", O_RDONLY) >= 0 || errno != EACCES) ::_exit(7);
    ::_exit(42);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 42);
}
