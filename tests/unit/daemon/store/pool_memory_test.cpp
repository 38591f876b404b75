#include "daemon/store/pool/pool_memory.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace simm::store::testing {
namespace pool {

constexpr std::uint64_t kPayload = 2 << 20;
constexpr std::uint64_t kTable = 1 << 20;

// A directory of its own on tmpfs.
struct Scratch {
  [[nodiscard]] std::string pool() const { return directory / "pool"; }

  const test_support::TemporaryDirectory directory{"/dev/shm"};
  const std::string& path = directory.path();
};

PoolConfig config_of(PoolKind kind, const std::string& path = "") {
  PoolConfig config;
  config.kind = kind;
  config.path = path;
  config.shards = 2;
  config.payload_bytes = kPayload;
  config.table_bytes = kTable;
  config.owner = "storage/a of cluster simm";
  config.fresh_hash_seed = 77;
  return config;
}

std::unique_ptr<PoolMemory> make(const PoolConfig& config, std::vector<PoolFile> handed = {}) {
  auto made = PoolMemory::create(config, std::move(handed));
  REQUIRE_MESSAGE(made.has_value(), made.error().context);
  return std::move(*made);
}

// A byte of the last shard's payload and one of its table; the table's has to be asked for.
void leave_a_mark(const PoolMemory& memory) {
  const ShardMemory shard = memory.shard(1, 0);
  shard.payload[kPayload - 1] = std::byte{42};
  std::byte* const at = shard.table.data() + 100'000;
  if (shard.backing != nullptr) REQUIRE(shard.backing->back(at, 1) > 0);
  *at = std::byte{43};
}
// In the same bytes of the files, however many shards share them.
bool has_the_mark(const PoolMemory& memory, std::uint32_t shards = 2) {
  const ShardMemory shard = memory.shard(shards - 1, 0);
  const std::byte in_table = shard.table[shard.table.size() - kTable + 100'000];
  return shard.payload.back() == std::byte{42} && in_table == std::byte{43};
}

// Why a pool that differs in one thing is begun anew.
std::string reason(const PoolConfig& config) {
  const auto memory = make(config);
  CHECK_FALSE(memory->is_kept());
  CHECK_FALSE(has_the_mark(*memory, config.shards));
  CHECK(memory->last_life().incarnation_high == 0);
  return memory->why_fresh();
}

std::string refusal(const PoolConfig& config) {
  const auto made = PoolMemory::create(config, {});
  CHECK_FALSE(made.has_value());
  return made.has_value() ? "" : made.error().context;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

}  // namespace pool

TEST_CASE("a named pool is found again with its bytes, its seed and its last life") {
  const pool::Scratch scratch;
  const PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  {
    const auto first = pool::make(config);
    CHECK_FALSE(first->is_kept());
    CHECK(first->why_fresh().empty());
    CHECK(first->outlives_the_process());
    CHECK(first->hash_seed() == 77);
    first->begin_life(1, 2);
    first->note_map(9, 3, 4);
    pool::leave_a_mark(*first);
    struct stat info {};
    REQUIRE(::stat(scratch.pool().c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0700);
    REQUIRE(::stat((scratch.pool() + "/payload").c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
    // Every page is promised, so that no access can fail on a file system that has become full.
    CHECK(static_cast<std::uint64_t>(info.st_blocks) * 512 >= 2 * pool::kPayload);
  }
  PoolConfig later = config;
  later.fresh_hash_seed = 78;
  {
    const auto second = pool::make(later);
    CHECK(second->is_kept());
    CHECK(second->shard(0, 5).contents == Contents::kept);
    CHECK(second->shard(0, 5).now_ns == 5);
    CHECK(second->shard(0, 5).boot != 0);
    CHECK(second->hash_seed() == 77);
    CHECK(second->last_life().incarnation_high == 1);
    CHECK(second->last_life().incarnation_low == 2);
    CHECK(second->last_life().epoch == 9);
    CHECK(second->last_life().lineage_high == 3);
    CHECK(second->last_life().lineage_low == 4);
    CHECK(second->last_life().is_running);  // it was not told that it ends
    CHECK(pool::has_the_mark(*second));
    second->begin_life(1, 2);
    second->end_life();
  }
  const auto third = pool::make(later);
  CHECK(third->is_kept());
  CHECK(third->last_life().lives == 2);
  CHECK(third->last_life().epoch == 9);
  CHECK_FALSE(third->last_life().is_running);
}

TEST_CASE("contents of another shape, owner or seed are refused with the field and both values") {
  const pool::Scratch scratch;
  const PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  const auto begin = [&config] {
    const auto memory = pool::make(config);
    memory->begin_life(1, 2);
    pool::leave_a_mark(*memory);
  };
  PoolConfig other = config;
  begin();
  other.shards = 1;
  other.payload_bytes = 2 * pool::kPayload;  // so that the files are as long
  other.table_bytes = 2 * pool::kTable;
  pool::contains(pool::reason(other), "shards (threading.data_agents): found 2, expected 1");
  begin();
  other = config;
  other.payload_bytes *= 2;
  pool::contains(pool::reason(other), "payload has 4194304 bytes, expected 8388608");
  begin();
  other = config;
  other.table_bytes += 4096;
  pool::contains(pool::reason(other), "table has 2101248 bytes, expected 2109440");
  begin();
  other = config;
  other.owner = "storage/b of cluster simm";
  pool::contains(pool::reason(other), "storage/b");
  begin();
  other = config;
  other.hash_seed = 5;
  pool::contains(pool::reason(other), "hash seed");
  begin();
  other = config;
  other.hash_seed = other.fresh_hash_seed;  // the same as before, but given
  CHECK(pool::make(other)->is_kept());
  begin();
  pool::make(config)->discard();
  pool::contains(pool::reason(config), "discarded");
  begin();
  // Not the payloads that this table tells of.
  std::filesystem::copy_file(scratch.pool() + "/payload", scratch.pool() + "/copy");
  std::filesystem::rename(scratch.pool() + "/copy", scratch.pool() + "/payload");
  pool::contains(pool::reason(config), "file of the payloads");
  begin();
  other = config;
  other.restart = PoolRestart::fresh;
  CHECK(pool::reason(other).empty());
  begin();
  other = config;
  other.restart = PoolRestart::require;
  other.owner = "another";
  pool::contains(pool::refusal(other), "node.pool_restart = require");
  CHECK(pool::make(config)->is_kept());  // it was not touched
}

TEST_CASE("a life that the previous release has written is of an unknown lineage") {
  std::vector<std::uint64_t> words(kPoolHeaderBytes / sizeof(std::uint64_t));
  auto* const page = reinterpret_cast<std::byte*>(words.data());
  PoolShape shape;
  shape.owner = "storage/a";
  PoolLife life;
  life.lineage_high = 3;
  life.lineage_low = 4;
  PoolHeader(page).begin(shape, life);
  PoolHeader(page).write(life);
  CHECK(PoolHeader(page).check(shape)->life.lineage_high == 3);
  // It writes the first 56 bytes only, behind which an older lineage of this release stands.
  const std::vector<std::uint64_t> before = words;
  life.epoch = 5;
  PoolHeader(page).write(life);
  constexpr std::size_t kFirstLife = 1024 / sizeof(std::uint64_t);
  for (const std::size_t at : {kFirstLife, 2 * kFirstLife}) {
    for (std::size_t word = 7; word < 11; ++word) words[at + word] = before[at + word];
  }
  const auto kept = PoolHeader(page).check(shape);
  REQUIRE(kept.has_value());
  CHECK(kept->life.epoch == 5);
  CHECK(kept->life.lineage_high == 0);
  CHECK(kept->life.lineage_low == 0);
}

TEST_CASE("a header with any one byte changed is never taken for the one that was written") {
  const pool::Scratch scratch;
  const PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  const auto memory = pool::make(config);
  memory->begin_life(1, 2);
  memory->note_map(7, 3, 4);
  std::vector<std::byte> page(kPoolHeaderBytes);
  const ipc::UniqueFd file(::open((scratch.pool() + "/table").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::pread(file.get(), page.data(), page.size(), 0) == kPoolHeaderBytes);
  PoolShape shape;
  shape.payload_bytes = pool::kPayload;
  shape.table_bytes = pool::kTable;
  shape.shards = 2;
  shape.owner = config.owner;
  // What a test can not know is taken from the page: offsets as pool_header.h has them.
  std::memcpy(&shape.boot, page.data() + 48, sizeof shape.boot);
  std::memcpy(&shape.payload_file, page.data() + 56, sizeof shape.payload_file);
  REQUIRE(PoolHeader(page.data()).check(shape).has_value());
  int refused = 0;
  for (std::size_t at = 0; at < page.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      page[at] ^= std::byte{1} << bit;
      const auto kept = PoolHeader(page.data()).check(shape);
      page[at] ^= std::byte{1} << bit;
      refused += kept.has_value() ? 0 : 1;
      if (!kept.has_value()) continue;
      // Either it does not matter, or it is the life before, which is whole as well.
      CHECK((kept->life.epoch == 7 || kept->life.epoch == 0));
      CHECK(kept->life.incarnation_high == 1);
      // A lineage is whole, or unknown.
      const std::uint64_t high = kept->life.lineage_high;
      CHECK((high == 3 || high == 0));
      CHECK(kept->life.lineage_low == (high == 3 ? 4 : 0));
      CHECK(kept->hash_seed == 77);
    }
  }
  CHECK(refused >= 296 * 8);  // all of the shape
  std::memset(page.data(), 0, page.size());
  CHECK_FALSE(PoolHeader(page.data()).check(shape).has_value());
}

TEST_CASE(
    "a directory that others could reach, or of a disk, or none, is refused with the remedy") {
  const pool::Scratch scratch;
  const auto refused = [](const std::string& path, const std::string& part) {
    pool::contains(pool::refusal(pool::config_of(PoolKind::named, path)), part);
  };
  refused("relative/path", "absolute path");
  refused(scratch.path + "/no/such", "there is no directory " + scratch.path + "/no");
  std::filesystem::create_directory(scratch.path + "/open");
  REQUIRE(::chmod((scratch.path + "/open").c_str(), 0750) == 0);
  refused(scratch.path + "/open", "0700");
  std::filesystem::create_directory_symlink(scratch.path, scratch.path + "/link");
  refused(scratch.path + "/link", "symbolic link");
  refused("/proc", ::geteuid() == 0 ? "0700" : "has to belong");
}

TEST_CASE("a file that is a symbolic link, or that others may write, is not used") {
  const pool::Scratch scratch;
  const PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  pool::leave_a_mark(*pool::make(config));
  REQUIRE(::chmod((scratch.pool() + "/payload").c_str(), 0620) == 0);
  pool::contains(pool::reason(config), "mode 0600");
  pool::leave_a_mark(*pool::make(config));
  std::filesystem::rename(scratch.pool() + "/table", scratch.path + "/elsewhere");
  std::filesystem::create_symlink(scratch.path + "/elsewhere", scratch.pool() + "/table");
  CHECK_FALSE(pool::reason(config).empty());
  pool::leave_a_mark(*pool::make(config));
  std::filesystem::create_hard_link(scratch.pool() + "/payload", scratch.path + "/second");
  pool::contains(pool::reason(config), "one name");
  // A start that was killed in between.
  pool::make(config).reset();
  const ipc::UniqueFd holes(::open((scratch.pool() + "/payload").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::fallocate(holes.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0);
  pool::contains(pool::reason(config), "never reserved");
}

TEST_CASE("whoever starts a named pool is told how much of its memory is there") {
  const pool::Scratch scratch;
  PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  config.payload_bytes = 150 << 20;
  std::vector<std::uint64_t> taken;
  config.on_taken = [&taken](std::uint64_t bytes) { taken.push_back(bytes); };
  pool::make(config).reset();
  CHECK(taken == std::vector<std::uint64_t>{256 << 20, 300 << 20});
}

TEST_CASE("a named pool takes its memory on several threads, and its start goes on being told") {
  const pool::Scratch scratch;
  PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  config.payload_bytes = 300 << 20;
  config.take_threads = 4;
  std::vector<std::uint64_t> taken;
  const std::thread::id here = std::this_thread::get_id();
  config.on_taken = [&](std::uint64_t bytes) {
    CHECK(std::this_thread::get_id() == here);
    taken.push_back(bytes);
  };
  const auto made = pool::make(config);
  CHECK(std::is_sorted(taken.begin(), taken.end()));
  struct stat info {};
  REQUIRE(::stat((scratch.pool() + "/payload").c_str(), &info) == 0);
  CHECK(info.st_blocks * 512 == info.st_size);
  // Present, not only promised: nobody waits for a page at its first use.
  const auto payload = made->payload().bytes();
  std::vector<unsigned char> resident(payload.size() / 4096);
  REQUIRE(::mincore(payload.data(), payload.size(), resident.data()) == 0);
  CHECK(std::all_of(resident.begin(), resident.end(), [](unsigned char one) { return one & 1; }));
}

TEST_CASE("a start that was killed while it took memory goes on where it stopped") {
  const pool::Scratch scratch;
  const PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  pool::leave_a_mark(*pool::make(config));
  const ipc::UniqueFd payload(::open((scratch.pool() + "/payload").c_str(), O_RDWR | O_CLOEXEC));
  const std::string table = scratch.pool() + "/table";
  // Half of the payload has memory, and the table has no page yet.
  REQUIRE(::fallocate(payload.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pool::kPayload,
                      pool::kPayload) == 0);
  const auto table_bytes = static_cast<off_t>(std::filesystem::file_size(table));
  REQUIRE(::truncate(table.c_str(), 0) == 0);
  REQUIRE(::truncate(table.c_str(), table_bytes) == 0);
  const auto is_same_file = [&] {
    struct stat before {};
    struct stat now {};
    REQUIRE(::fstat(payload.get(), &before) == 0);
    REQUIRE(::stat((scratch.pool() + "/payload").c_str(), &now) == 0);
    return before.st_ino == now.st_ino && now.st_blocks * 512 == now.st_size;
  };
  // Nothing was ever stored, so nothing that is required is missing.
  PoolConfig required = config;
  required.restart = PoolRestart::require;
  CHECK(pool::reason(required).empty());
  CHECK(is_same_file());
  // Where a table has pages, objects may have been stored: all is made anew.
  pool::leave_a_mark(*pool::make(config));
  REQUIRE(::fallocate(payload.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pool::kPayload,
                      pool::kPayload) == 0);
  pool::contains(pool::reason(config), "never reserved");
  CHECK_FALSE(is_same_file());
}

TEST_CASE("a NUMA node that is none fails the start, drops nothing and leaves nothing behind") {
  const pool::Scratch scratch;
  PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  config.numa_node = 1000;
  const auto made = PoolMemory::create(config, {});
  if (made.has_value()) {
    MESSAGE("skipped: this kernel has no NUMA policy");
    return;
  }
  pool::contains(made.error().context, "NUMA node 1000");
  CHECK_FALSE(std::filesystem::exists(scratch.pool() + "/payload"));
  CHECK_FALSE(std::filesystem::exists(scratch.pool() + "/table"));
  config.numa_node = -1;
  pool::leave_a_mark(*pool::make(config));
  config.numa_node = 1000;
  pool::contains(pool::refusal(config), "NUMA node 1000");
  config.numa_node = -1;
  const auto kept = pool::make(config);
  CHECK(kept->is_kept());
  CHECK(pool::has_the_mark(*kept));
}

TEST_CASE("one daemon at a time: a second one is refused, and told who has it") {
  const pool::Scratch scratch;
  const PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  const auto first = pool::make(config);
  first->begin_life(1, 2);
  pool::leave_a_mark(*first);
  const std::string expected = "pid " + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto second = PoolMemory::create(config, {});
    const bool told = !second.has_value() && second.status() == Status::invalid_state &&
                      second.error().context.find(expected) != std::string::npos;
    ::_exit(told ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(pool::has_the_mark(*first));
}

// Its lock has gone, and the process has not: as while the kernel ends its queue pairs.
void wait_for_the_end_of(void (*leave)(std::unique_ptr<PoolMemory>)) {
  const pool::Scratch scratch;
  const PoolConfig config = pool::config_of(PoolKind::named, scratch.pool());
  int locked[2];
  int end[2];
  REQUIRE(::pipe(locked) == 0);
  REQUIRE(::pipe(end) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(end[1]);
    leave(pool::make(config));
    ::syscall(SYS_close_range, std::max({locked[1], end[0], 2}) + 1, ~0U, 0U);
    char byte = 'x';
    if (::write(locked[1], &byte, 1) != 1) ::_exit(1);
    (void)!::read(end[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(locked[0], &byte, 1) == 1);
  std::thread ender([&end] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::close(end[1]);
  });
  const auto next = pool::make(config);
  siginfo_t ended{};
  const int waited = ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG);
  CHECK(waited == 0);
  CHECK(ended.si_pid == child);  // had ended when we got the pool
  ender.join();
  if (ended.si_pid != child) ::waitpid(child, nullptr, 0);
  for (const int fd : {locked[0], locked[1], end[0]}) ::close(fd);
}

TEST_CASE("a pool whose daemon is still ending is not touched before that process has ended") {
  SUBCASE("it was killed") {
    wait_for_the_end_of(
        [](std::unique_ptr<PoolMemory> memory) { static_cast<void>(memory.release()); });
  }
  // It may have given up a queue pair that did not end in time.
  SUBCASE("it was stopped") {
    wait_for_the_end_of([](std::unique_ptr<PoolMemory> memory) { memory.reset(); });
  }
}

TEST_CASE("handed files are used when they are what was made, and only then") {
  const PoolConfig config = pool::config_of(PoolKind::handed);
  const auto first = pool::make(config);
  first->begin_life(3, 4);
  pool::leave_a_mark(*first);
  std::vector<PoolFile> files = first->take_files();
  REQUIRE(files.size() == kPoolFiles);
  CHECK(first->take_files().empty());
  const auto copies = [&files] {
    std::vector<PoolFile> handed;
    for (const PoolFile& file : files) {
      handed.push_back({file.name, ipc::UniqueFd(::dup(file.fd.get()))});
    }
    return handed;
  };
  {
    const auto second = pool::make(config, copies());
    CHECK(second->is_kept());
    CHECK(second->last_life().incarnation_low == 4);
    CHECK(pool::has_the_mark(*second));
    CHECK(second->take_files().empty());  // they are kept already
  }
  const auto refused = [&config](std::vector<PoolFile> handed, const std::string& part) {
    const auto memory = pool::make(config, std::move(handed));
    CHECK_FALSE(memory->is_kept());
    CHECK_FALSE(pool::has_the_mark(*memory));
    CHECK(memory->take_files().size() == kPoolFiles);  // in the place of the others
    pool::contains(memory->why_fresh(), part);
  };
  std::vector<PoolFile> handed = copies();
  handed.pop_back();
  refused(std::move(handed), "is missing");
  handed = copies();
  handed[0].fd.reset(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(handed[0].fd.get(), 2 * pool::kPayload) == 0);
  refused(std::move(handed), "sealed");
  handed = copies();
  std::swap(handed[0].fd, handed[1].fd);
  refused(std::move(handed), "expected");
  handed = copies();
  handed[0].fd.reset(
      ::open(("/proc/self/fd/" + std::to_string(files[0].fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  refused(std::move(handed), "to write");
  handed = copies();
  handed[1].fd.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  refused(std::move(handed), "simm-pool-table");
}

TEST_CASE("private memory has no table and leaves nothing") {
  const auto memory = pool::make(pool::config_of(PoolKind::private_));
  CHECK(memory->shard(1, 0).table.empty());
  CHECK(memory->shard(1, 0).contents == Contents::fresh);
  CHECK_FALSE(memory->outlives_the_process());
  CHECK(memory->take_files().empty());
  CHECK(memory->hash_seed() == 77);
}

}  // namespace simm::store::testing
