// Workers of foreign regions have the pool's arena mapped, to read: nothing but the extent of a
// copy may change, none writes to its client after a fence, and no client gets at the worker.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/transport/region_mover.h"
#include "tests/hostile/memory/attacked_daemon.h"
#include "tests/hostile/memory/hanging_client.h"
#include "tests/hostile/memory/test_arena.h"

namespace foreign_arena {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Status;
using simm::transport::Move;
using simm::transport::MoveDirection;
using simm::transport::MoveProgress;
using simm::transport::RegionMover;
using Kind = simm::ipc::RegionRequestKind;

constexpr std::uint64_t kArenaBytes = TestArena::kBytes;
constexpr auto kCanary = TestArena::kCanary;
constexpr std::uint64_t kExtentAt = 5 * kPage + 64;  // an extent starts at any multiple of 64

struct ArenaMove {
  simm::base::PayloadDigest stream;
  Move move;
  ArenaMove(const Slice& slice, std::byte* own, MoveDirection direction) {
    move.slice = slice;
    move.memory = own;
    move.length = slice.length;
    move.direction = direction;
    move.digest_wanted = true;
    move.stream = &stream;
  }
};

Status finish(ArenaMove& running, RegionMover& mover, std::uint64_t bytes_max) {
  for (;;) {
    const std::uint64_t before = running.move.moved;
    const MoveProgress progress = mover.step(running.move, bytes_max);
    // The digest of a large piece is made in steps, too.
    REQUIRE(running.move.moved - before <= bytes_max);
    if (progress == MoveProgress::done) return running.move.status;
    if (progress == MoveProgress::waiting) ::usleep(20);
  }
}

constexpr std::uint64_t kClientBytes = 24 << 20;

// Its memory is shared with the test, so that the test sees it; to the daemon it is private.
ForkedClientSpec seen_client(char* memory) {
  ForkedClientSpec spec;
  spec.set_up = [memory] { return report_of(memory, kClientBytes); };
  return spec;
}

char* shared_bytes(std::uint64_t bytes) {
  return map_anonymous(bytes, MAP_SHARED);
}

// The only process whose parent is `parent` and that is not known yet: its worker.
pid_t child_of(pid_t parent) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string text;
    if (!std::getline(stat, text) || text.find(')') == text.npos) continue;
    char state = 0;
    int ppid = 0;
    if (std::sscanf(text.c_str() + text.rfind(')') + 1, " %c %d", &state, &ppid) != 2) continue;
    if (ppid == parent && state != 'Z') return std::stoi(entry.path().filename());
  }
  return -1;
}

// The names of files of which the process has a mapping that it can write, now or after mprotect.
std::vector<std::string> writable_files(pid_t pid) {
  std::vector<std::string> names;
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps");
  std::string name;
  for (std::string line; std::getline(file, line);) {
    const auto path = line.find("/memfd:");
    if (line.find('-') < line.find(' ')) name = path == line.npos ? "" : line.substr(path);
    if (name.empty() || line.rfind("VmFlags:", 0) != 0) continue;
    if (contains(line, " wr") || contains(line, " mw")) names.push_back(name);
  }
  return names;
}

std::string status_line(pid_t pid, const std::string& label) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(label, 0) != 0) continue;
    std::replace(line.begin(), line.end(), '\t', ' ');
    return line;
  }
  return {};
}

// What the client tried on the worker: a bit for each attempt that was not refused.
struct Attempts {
  std::atomic<pid_t> worker{0};
  std::atomic<unsigned> succeeded{0};
};

void attack_worker(Attempts& attempts) {
  const pid_t worker = attempts.worker;
  const std::string proc = "/proc/" + std::to_string(worker) + "/";
  unsigned succeeded = 0;
  unsigned number = 0;
  const auto tried = [&](bool is_done) { succeeded |= (is_done ? 1u : 0u) << number++; };
  const bool is_attached = ::ptrace(PTRACE_ATTACH, worker, nullptr, nullptr) == 0;
  tried(is_attached);
  if (is_attached) {
    ::waitpid(worker, nullptr, __WALL);
    ::ptrace(PTRACE_DETACH, worker, nullptr, nullptr);
  }
  char byte = 0;
  iovec local{&byte, 1};
  iovec remote{reinterpret_cast<void*>(&attack_worker), 1};  // it is a fork: our text is its text
  tried(::process_vm_readv(worker, &local, 1, &remote, 1, 0) == 1);
  for (const char* file : {"mem", "maps", "environ", "auxv", "syscall", "stack"}) {
    const int fd = ::open((proc + file).c_str(), O_RDONLY | O_CLOEXEC);
    // Some of them open and refuse to be read.
    tried(fd >= 0 && ::read(fd, &byte, 1) > 0);
  }
  for (const char* directory : {"fd", "map_files"}) {
    tried(::open((proc + directory).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0);
  }
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, worker, 0));
  for (int fd = 0; fd < 16; ++fd) {
    tried(::syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0);
  }
  attempts.succeeded = succeeded;
}

}  // namespace foreign_arena

TEST_CASE("copies each way between a client's memory and the arena, and not a byte beside it") {
  using namespace foreign_arena;
  if (!is_root()) return;
  TestArena arena;
  char* const memory = shared_bytes(kClientBytes);
  AttackedDaemon daemon(true, 64 << 20, arena.foreign());
  ForkedClient client(seen_client(memory));
  auto made = daemon.make(client, Kind::foreign);
  REQUIRE(made);
  RegionMover mover;
  std::vector<char> before(kClientBytes);
  for (std::uint64_t i = 0; i < kClientBytes; ++i) before[i] = static_cast<char>(i * 131 / 5);
  for (const std::uint64_t length :
       {std::uint64_t{1}, std::uint64_t{4097}, kWriteBytesMax, 2 * kWriteBytesMax + 12'345}) {
    const std::uint64_t client_at = 3 * kPage + 17;
    const Slice slice{&made->memory->region(), client_at, length};
    std::memcpy(memory, before.data(), kClientBytes);
    arena.fill(0, kArenaBytes, kCanary);

    ArenaMove in(slice, arena.at(kExtentAt), MoveDirection::in);
    REQUIRE(finish(in, mover, 256 * 1024) == Status::ok);
    CHECK(std::memcmp(arena.at(kExtentAt), memory + client_at, length) == 0);
    CHECK(arena.is_canary_but(kExtentAt, length));
    CHECK(in.move.digest == simm::base::payload_digest(arena.at(kExtentAt), length));

    arena.fill(kExtentAt, length, std::byte{0x3a});
    ArenaMove out(slice, arena.at(kExtentAt), MoveDirection::out);
    REQUIRE(finish(out, mover, 256 * 1024) == Status::ok);
    CHECK(out.move.digest == simm::base::payload_digest(arena.at(kExtentAt), length));
    std::vector<char> expected = before;
    std::fill_n(&expected[client_at], length, '\x3a');
    CHECK(std::memcmp(memory, expected.data(), kClientBytes) == 0);
    CHECK(arena.is_canary_but(kExtentAt, length));
  }
  ::munmap(memory, kClientBytes);
}

TEST_CASE("a worker that is killed while it reads its client changes no extent") {
  using namespace foreign_arena;
  if (!is_root()) return;
  constexpr std::uint64_t kBytes = 6 << 20;
  constexpr std::uint64_t kHangFrom = (3 << 20) + 64 * kPage;
  TestArena arena;
  SharedKeeper keeper;
  AttackedDaemon daemon(true, 64 << 20, arena.foreign());
  ForkedClient client(hanging_client(keeper, kBytes, kHangFrom));
  if (client.length() == 0) {
    MESSAGE("skipped: no userfaultfd on this machine");
    return;
  }
  auto made = daemon.make(client, Kind::foreign);
  REQUIRE(made);
  RegionMover mover;
  ArenaMove stuck(whole(*made->memory), arena.at(kExtentAt), MoveDirection::in);
  for (int turn = 0; !keeper->has_fault; ++turn) {
    REQUIRE(mover.step(stuck.move, 1 << 20) != MoveProgress::done);
    REQUIRE(turn < 100'000);
    ::usleep(100);
  }
  while (mover.step(stuck.move, 1 << 20) != MoveProgress::waiting) continue;
  CHECK(stuck.move.moved == 3 * kReadBytesMax);
  CHECK(arena.is_all(kExtentAt, stuck.move.moved, std::byte{'h'}));
  CHECK(arena.is_canary_but(kExtentAt, stuck.move.moved));
  for (int turn = 0; !mover.stop(stuck.move); ++turn) {
    REQUIRE(turn < 100'000);
    ::usleep(100);
  }
  // The extent is another object's now, and the fault is served after all.
  arena.fill(kExtentAt, kBytes, std::byte{'n'});
  keeper.end();
  ::usleep(50'000);
  CHECK(arena.is_all(kExtentAt, kBytes, std::byte{'n'}));
  CHECK(arena.is_canary_but(kExtentAt, kBytes));

  daemon.registrar->maintain();  // another worker takes over
  ArenaMove again({&made->memory->region(), 0, kPage}, arena.at(kExtentAt), MoveDirection::in);
  REQUIRE(finish(again, mover, 1 << 20) == Status::ok);
  CHECK(arena.is_all(kExtentAt, kPage, std::byte{'h'}));
  CHECK(arena.is_all(kExtentAt + kPage, kBytes - kPage, std::byte{'n'}));
}

TEST_CASE("a worker that is killed while it writes to its client writes nothing afterwards") {
  using namespace foreign_arena;
  if (!is_root()) return;
  constexpr std::uint64_t kBytes = 6 << 20;
  constexpr std::uint64_t kHangFrom = 5 << 20;
  TestArena arena;
  arena.fill(0, kArenaBytes, std::byte{'a'});
  SharedKeeper keeper;
  AttackedDaemon daemon(true, 64 << 20, arena.foreign());
  ForkedClientSpec spec = hanging_client(keeper, kBytes, kHangFrom);
  static std::atomic<unsigned>* verdict = nullptr;
  auto* const shared = new (shared_bytes(kPage)) std::atomic<unsigned>(0);
  verdict = shared;
  static const char* pages = nullptr;
  spec.set_up = [set_up = spec.set_up] {
    const ClientReport report = set_up();
    // SAFETY: the client's own address.
    pages = reinterpret_cast<const char*>(report.address);
    return report;
  };
  // t: what was there before the fence; r: reuses its pages; c: nobody has touched them since.
  spec.command = [](char letter) {
    auto* const own = const_cast<char*>(pages);
    if (letter == 't') {
      *verdict = own[0] == 'h' && own[kPage - 1] == 'h' && own[kPage] == 'a' ? 1 : 0;
    } else if (letter == 'r') {
      std::memset(own, 'r', kHangFrom);
    } else {
      *verdict = std::all_of(own, own + kHangFrom, [](char byte) { return byte == 'r'; }) ? 1 : 0;
    }
  };
  ForkedClient client(spec);
  if (client.length() == 0) {
    MESSAGE("skipped: no userfaultfd on this machine");
    return;
  }
  auto made = daemon.make(client, Kind::foreign);
  REQUIRE(made);
  RegionMover mover;
  const Slice slice{&made->memory->region(), kPage, kBytes - kPage};  // one page of canaries before
  ArenaMove stuck(slice, arena.at(kExtentAt), MoveDirection::out);
  for (int turn = 0; !keeper->has_fault; ++turn) {
    REQUIRE(mover.step(stuck.move, 1 << 20) == MoveProgress::waiting);
    REQUIRE(turn < 100'000);
    ::usleep(100);
  }
  client.command('t');
  CHECK(*shared == 1);
  for (int turn = 0; !mover.stop(stuck.move); ++turn) {
    REQUIRE(turn < 100'000);
    ::usleep(100);
  }
  client.command('r');
  keeper.end();
  ::usleep(50'000);
  client.command('c');
  CHECK(*shared == 1);
  CHECK(arena.is_all(0, kArenaBytes, std::byte{'a'}));
}

TEST_CASE(
    "the client can neither look into the worker that has the arena nor take anything of it") {
  using namespace foreign_arena;
  if (!is_root()) return;
  TestArena arena;
  auto* const attempts = new (shared_bytes(kPage)) Attempts;
  char* const memory = shared_bytes(kClientBytes);
  AttackedDaemon daemon(true, 64 << 20, arena.foreign());
  ForkedClientSpec spec = seen_client(memory);
  spec.command = [attempts](char) { attack_worker(*attempts); };
  ForkedClient client(spec);
  auto made = daemon.make(client, Kind::foreign);
  REQUIRE(made);
  RegionMover mover;
  ArenaMove first({&made->memory->region(), 0, kPage}, arena.at(0), MoveDirection::in);
  REQUIRE(finish(first, mover, 1 << 20) == Status::ok);  // it is set up

  const pid_t worker = child_of(daemon.helper_pid);
  REQUIRE(worker > 0);
  CHECK(status_line(worker, "Uid:") == "Uid: 12345 65534 65534 65534");
  CHECK(status_line(worker, "Gid:") == "Gid: 12345 65534 65534 65534");
  CHECK(status_line(worker, "CapPrm:") == "CapPrm: 0000000000000000");
  CHECK(status_line(worker, "Seccomp:") == "Seccomp: 2");
  // The helper's filter and its own one; kernels before 5.9 do not tell.
  const std::string filters = status_line(worker, "Seccomp_filters:");
  const std::string helpers = status_line(daemon.helper_pid, "Seccomp_filters:");
  if (!filters.empty()) CHECK(std::stoi(filters.substr(16)) == std::stoi(helpers.substr(16)) + 1);
  // Standard files, the pidfd of the client and the jobs: the arena's descriptor is gone.
  int beyond_standard = 0;
  for (const auto& fd :
       std::filesystem::directory_iterator("/proc/" + std::to_string(worker) + "/fd")) {
    const std::string target = std::filesystem::read_symlink(fd.path());
    CHECK_FALSE(contains(target, "memfd"));
    if (std::stoi(fd.path().filename()) > 2) ++beyond_standard;
  }
  CHECK(beyond_standard == 2);

  // All that it can write besides its own memory; the arena is not among it.
  const std::vector<std::string> writable = writable_files(worker);
  REQUIRE(writable.size() == 1);
  CHECK(contains(writable[0], "simm-bounce"));
  CHECK(std::system(("grep -q simm-arena /proc/" + std::to_string(worker) + "/maps").c_str()) == 0);

  attempts->worker = worker;
  client.command('a');
  CHECK(attempts->succeeded == 0);
  // The same on a process of its own user that is open to it: the attempts can succeed.
  ForkedClient open_one(seen_client(memory));
  attempts->worker = open_one.pid();
  client.command('a');
  CHECK((attempts->succeeded & 1u) == 1);
  ArenaMove after({&made->memory->region(), 0, kPage}, arena.at(0), MoveDirection::out);
  CHECK(finish(after, mover, 1 << 20) == Status::ok);
}
