#include "daemon/store/pool/pool_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <utility>

#include "daemon/base/hash.h"
#include "simm/check.h"

namespace simm::store {
namespace {

constexpr const char* kPayload = "payload";
constexpr const char* kTable = "table";

std::uint64_t whole_pages(std::uint64_t bytes, std::uint64_t page_bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

// 0 where the kernel does not tell.
std::uint64_t this_boot() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (!std::getline(file, text) || text.empty()) return 0;
  return base::payload_digest(text.data(), text.size());
}

// No other file of this boot has the same, while this one lives.
std::uint64_t file_number(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return 0;
  const std::array<std::uint64_t, 2> number{info.st_dev, info.st_ino};
  return base::payload_digest(number.data(), sizeof number);
}

Error unfit(const std::string& name, const std::string& what) {
  return {Status::incompatible, name + " " + what};
}

// A memfd that nobody can make shorter, of this user, as it was when this daemon made it.
Outcome check_handed(const PoolFile& file, std::uint64_t bytes) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat info {};
  if (::fstat(file.fd.get(), &info) != 0) return unfit(file.name, "is no file");
  const int seals = ::fcntl(file.fd.get(), F_GET_SEALS);
  if (!S_ISREG(info.st_mode) || seals < 0 || (seals & kSeals) != kSeals) {
    return unfit(file.name, "is no memfd that is sealed against growing and shrinking");
  }
  if (info.st_uid != ::geteuid() || (::fcntl(file.fd.get(), F_GETFL) & O_ACCMODE) != O_RDWR) {
    return unfit(file.name, "is not this user's to write");
  }
  if (static_cast<std::uint64_t>(info.st_size) != bytes) {
    return unfit(file.name, "has " + std::to_string(info.st_size) + " bytes, expected " +
                                std::to_string(bytes));
  }
  return Done{};
}

bool is_hugetlb(int fd) {
  struct statfs system {};
  return ::fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC;
}

}  // namespace

const char* pool_kind_name(PoolKind kind) noexcept {
  switch (kind) {
    case PoolKind::private_:
      return "private";
    case PoolKind::handed:
      return "handed";
    case PoolKind::named:
      return "named";
  }
  return "unknown";
}

Expected<std::unique_ptr<PoolMemory>> PoolMemory::create(const PoolConfig& config,
                                                         std::vector<PoolFile> handed) {
  std::unique_ptr<PoolMemory> made(new PoolMemory(config));
  Outcome done = Done{};
  switch (config.kind) {
    case PoolKind::private_:
      done = made->make_private();
      break;
    case PoolKind::handed:
      done = made->take_handed(std::move(handed));
      break;
    case PoolKind::named:
      done = made->open_named();
      break;
  }
  if (!done) return std::move(done).error();
  return made;
}

std::uint64_t PoolMemory::payload_file_bytes() const noexcept {
  const std::uint64_t page_bytes = directory_ == nullptr ? 4096 : directory_->page_bytes();
  return whole_pages(config_.payload_bytes * config_.shards, page_bytes);
}

std::uint64_t PoolMemory::table_file_bytes() const noexcept {
  const std::uint64_t page_bytes = directory_ == nullptr ? 4096 : directory_->page_bytes();
  return whole_pages(kPoolHeaderBytes + config_.table_bytes * config_.shards, page_bytes);
}

ArenaConfig PoolMemory::arena_config(std::uint64_t bytes, bool hugepages) const {
  ArenaConfig config;
  config.bytes = bytes;
  config.hugepages = hugepages;
  config.numa_node = config_.numa_node;
  return config;
}

// Tables are first touched by their own agents, which is where they should be.
ArenaConfig PoolMemory::payload_config(std::uint64_t bytes, bool hugepages) const {
  ArenaConfig config = arena_config(bytes, hugepages);
  config.part_nodes = config_.shard_nodes;
  config.part_bytes = config_.payload_bytes;
  return config;
}

PoolShape PoolMemory::shape() const {
  PoolShape wanted;
  wanted.payload_bytes = config_.payload_bytes;
  wanted.table_bytes = config_.table_bytes;
  wanted.shards = config_.shards;
  wanted.hash_seed = config_.hash_seed;
  wanted.boot = this_boot();
  wanted.payload_file = file_number(payload_->fd());
  wanted.owner = config_.owner;
  return wanted;
}

ShardMemory PoolMemory::shard(std::uint32_t index, base::TimeNs now_ns) const noexcept {
  SIMM_CHECK(index < config_.shards);
  ShardMemory memory;
  // SAFETY: the files hold `shards` parts of each, as payload_file_bytes() and table_file_bytes()
  // count them.
  memory.payload = payload_->bytes().subspan(index * config_.payload_bytes, config_.payload_bytes);
  if (table_ != nullptr) {
    memory.table = table_->bytes().subspan(kPoolHeaderBytes + index * config_.table_bytes,
                                           config_.table_bytes);
  }
  memory.backing = backing_.get();
  memory.contents = contents_;
  memory.boot = this_boot();
  memory.now_ns = now_ns;
  return memory;
}

// ---- the kinds ----

Outcome PoolMemory::make_private() {
  auto payload = Arena::create(payload_config(payload_file_bytes(), config_.hugepages));
  if (!payload) return std::move(payload).error();
  payload_ = std::make_unique<Arena>(std::move(*payload));
  static_cast<void>(payload_->take_writer());  // nobody else is to write, not even we by that way
  hash_seed_ = config_.fresh_hash_seed;
  return Done{};
}

Outcome PoolMemory::take_handed(std::vector<PoolFile> handed) {
  PoolFile payload;
  PoolFile table;
  for (PoolFile& file : handed) {
    if (file.name == std::string(kPoolFilePrefix) + kPayload)
      payload = std::move(file);
    else if (file.name == std::string(kPoolFilePrefix) + kTable)
      table = std::move(file);
  }
  if (!payload.fd.valid() && !table.fd.valid()) return create_handed();
  Outcome used = Done{};
  if (config_.restart == PoolRestart::fresh) return create_handed();
  if (!payload.fd.valid() || !table.fd.valid()) {
    used = unfit(payload.fd.valid() ? "simm-pool-table" : "simm-pool-payload", "is missing");
  }
  const bool hugepages = is_hugetlb(payload.fd.get());
  const std::uint64_t page_bytes = hugepages ? kHugePageBytes : 4096;
  if (used) used = check_handed(payload, whole_pages(payload_file_bytes(), page_bytes));
  if (used) used = check_handed(table, table_file_bytes());
  if (used && config_.hugepages_only && !hugepages) {
    used = unfit(payload.name, "has no huge pages, and node.hugepages is \"require\"");
  }
  if (used) used = use(std::move(payload.fd), std::move(table.fd), hugepages);
  return used ? Done{} : refuse(used.error());
}

Outcome PoolMemory::open_named() {
  auto directory = PoolDirectory::open(config_.path);
  if (!directory) return std::move(directory).error();
  directory_ = std::make_unique<PoolDirectory>(std::move(*directory));
  if (config_.hugepages_only && !directory_->is_hugetlbfs()) {
    return Error{Status::invalid_argument,
                 config_.path +
                     " is on tmpfs, and node.hugepages is \"require\": write a "
                     "directory of hugetlbfs, or \"try\""};
  }
  const bool has_contents = !find_begun().valid();
  if (config_.restart == PoolRestart::fresh || !has_contents) return create_named();
  auto payload = directory_->open_file(kPayload, payload_file_bytes(), payload_file_bytes());
  auto table = directory_->open_file(kTable, table_file_bytes(), 0);
  if (payload.status() == Status::not_found && table.status() == Status::not_found) {
    return create_named();
  }
  if (!payload) return refuse(payload.error());
  if (!table) return refuse(table.error());
  const Outcome used = use(std::move(*payload), std::move(*table), directory_->is_hugetlbfs());
  return used ? Done{} : refuse(used.error());
}

Outcome PoolMemory::use(ipc::UniqueFd payload, ipc::UniqueFd table, bool hugepages) {
  struct stat info {};
  if (::fstat(payload.get(), &info) != 0) return system_error("stat of the payloads", errno);
  auto first = Arena::map(std::move(payload),
                          payload_config(static_cast<std::uint64_t>(info.st_size), hugepages));
  if (!first) return std::move(first).error();
  ArenaConfig sparse = arena_config(table_file_bytes(), hugepages && directory_ != nullptr);
  sparse.sparse = true;
  auto second = Arena::map(std::move(table), sparse);
  if (!second) return std::move(second).error();
  if (Outcome held = hold(std::move(*first), std::move(*second)); !held) return held;
  const auto kept = PoolHeader(table_->bytes().data()).check(shape());
  if (!kept) return kept.error();
  contents_ = Contents::kept;
  hash_seed_ = kept->hash_seed;
  last_life_ = life_ = kept->life;
  return Done{};
}

// Lets go of what could write to the files, but for what the tables need to grow.
Outcome PoolMemory::hold(Arena payload, Arena table) {
  payload_ = std::make_unique<Arena>(std::move(payload));
  table_ = std::make_unique<Arena>(std::move(table));
  static_cast<void>(payload_->take_writer());
  ipc::UniqueFd writer = table_->take_writer();
  if (directory_ == nullptr) return Done{};
  backing_ = std::make_unique<PoolTableBacking>(std::move(writer), table_->bytes(),
                                                directory_->page_bytes());
  bool has_room = backing_->back(table_->bytes().data(), kPoolHeaderBytes) > 0;
  for (std::uint32_t i = 0; i < config_.shards && has_room; ++i) {
    // The page that every table begins with.
    has_room = backing_->back(shard(i, 0).table.data(), 4096) > 0;
  }
  if (has_room) return Done{};
  return Error{Status::no_space, config_.path +
                                     " has room for the payloads, but not for the metadata tables "
                                     "beside them: make it larger, or write less"};
}

std::size_t PoolTableBacking::back(const std::byte* at, std::size_t bytes) noexcept {
  constexpr std::size_t kStepBytes = std::size_t{2} << 20;
  const auto offset = static_cast<std::size_t>(at - bytes_.data());
  SIMM_CHECK(offset <= bytes_.size() && bytes <= bytes_.size() - offset);
  const std::size_t begin = offset / page_bytes_ * page_bytes_;
  // A step at a time; when the last one is not to be had, what is needed may be.
  for (const std::size_t length : {std::max(kStepBytes, bytes), bytes}) {
    const std::size_t end =
        std::min<std::size_t>(whole_pages(offset + length, page_bytes_), bytes_.size());
    int failed = 0;
    do {
      failed =
          ::fallocate(file_.get(), 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
    } while (failed != 0 && errno == EINTR);
    if (failed == 0) return end - offset;
  }
  return 0;
}

Outcome PoolMemory::refuse(const Error& why) {
  // A key of the configuration is wrong, not what is there.
  if (why.status == Status::invalid_argument) return why;
  if (config_.restart == PoolRestart::require) {
    return Error{why.status, why.context +
                                 "; node.pool_restart = require: nothing was touched; write "
                                 "\"keep\" to begin with an empty pool"};
  }
  why_fresh_ = why.context;
  backing_.reset();
  payload_.reset();
  table_.reset();
  return config_.kind == PoolKind::named ? create_named() : create_handed();
}

Outcome PoolMemory::create_handed() {
  auto payload = Arena::create(payload_config(payload_file_bytes(), config_.hugepages));
  if (!payload) return std::move(payload).error();
  ArenaConfig sparse = arena_config(table_file_bytes(), false);
  sparse.sparse = true;
  auto table = Arena::create(sparse);
  if (!table) return std::move(table).error();
  payload_ = std::make_unique<Arena>(std::move(*payload));
  table_ = std::make_unique<Arena>(std::move(*table));
  files_.push_back({std::string(kPoolFilePrefix) + kPayload, payload_->take_writer()});
  files_.push_back({std::string(kPoolFilePrefix) + kTable, table_->take_writer()});
  begin_fresh();
  return Done{};
}

Outcome PoolMemory::create_named() {
  ipc::UniqueFd begun = find_begun();
  // The old ones first: there may be no room for both.
  if (!begun.valid()) drop_named();
  Outcome made = make_named(std::move(begun));
  if (!made) {
    drop_named();
    return made;
  }
  begin_fresh();
  return Done{};
}

// The table gets its first page after all of the payload has memory. So beside a table without a
// page nothing was ever stored, and the payload is as good as new.
ipc::UniqueFd PoolMemory::find_begun() const {
  auto payload = directory_->open_file(kPayload, payload_file_bytes(), 0);
  const auto table = directory_->open_file(kTable, table_file_bytes(), 0);
  struct stat info {};
  const bool is_begun =
      payload && table && ::fstat(table->get(), &info) == 0 && info.st_blocks == 0;
  return is_begun ? std::move(*payload) : ipc::UniqueFd();
}

Outcome PoolMemory::make_named(ipc::UniqueFd begun) {
  const bool hugepages = directory_->is_hugetlbfs();
  auto table = directory_->create_file(kTable, table_file_bytes());
  if (!table) return std::move(table).error();
  auto payload = begun.valid() ? Expected<ipc::UniqueFd>(std::move(begun))
                               : directory_->create_file(kPayload, payload_file_bytes());
  if (!payload) return std::move(payload).error();
  // Mapped, and so bound to its NUMA node, before there is a page of it.
  const int payload_file = payload->get();
  ArenaConfig sparse = payload_config(payload_file_bytes(), hugepages);
  sparse.sparse = true;
  auto first = Arena::map(std::move(*payload), sparse);
  if (!first) return std::move(first).error();
  const Outcome taken =
      directory_->reserve(payload_file, first->bytes(), config_.take_threads, config_.on_taken);
  if (!taken) return taken;
  sparse = arena_config(table_file_bytes(), hugepages);
  sparse.sparse = true;
  auto second = Arena::map(std::move(*table), sparse);
  if (!second) return std::move(second).error();
  return hold(std::move(*first), std::move(*second));
}

void PoolMemory::drop_named() noexcept {
  directory_->remove_file(kTable);
  directory_->remove_file(kPayload);
}

void PoolMemory::begin_fresh() noexcept {
  hash_seed_ = config_.fresh_hash_seed;
  PoolShape made = shape();
  made.hash_seed = hash_seed_;
  life_ = PoolLife{};
  PoolHeader(table_->bytes().data()).begin(made, life_);
}

std::vector<PoolFile> PoolMemory::take_files() {
  return std::move(files_);
}

// ---- life ----

void PoolMemory::begin_life(std::uint64_t incarnation_high,
                            std::uint64_t incarnation_low) noexcept {
  life_ = last_life_;
  life_.incarnation_high = incarnation_high;
  life_.incarnation_low = incarnation_low;
  life_.lives = is_kept() ? last_life_.lives + 1 : 1;
  life_.is_running = true;
  write_life();
}

void PoolMemory::note_map(base::Epoch epoch, std::uint64_t lineage_high,
                          std::uint64_t lineage_low) noexcept {
  life_.epoch = epoch;
  life_.lineage_high = lineage_high;
  life_.lineage_low = lineage_low;
  write_life();
}

void PoolMemory::discard() noexcept {
  life_.is_discarded = true;
  write_life();
}

void PoolMemory::end_life() noexcept {
  life_.is_running = false;
  write_life();
}

void PoolMemory::write_life() noexcept {
  if (table_ != nullptr) PoolHeader(table_->bytes().data()).write(life_);
}

}  // namespace simm::store
