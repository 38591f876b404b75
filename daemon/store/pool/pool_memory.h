// PoolMemory: the memory of a daemon's pool: the payloads of all shards in one file, and, where it
// can outlive the process, their metadata tables behind a header in another. Decides whether what
// an earlier daemon has left there is used (Contents::kept) or not.
//
// Three kinds: private (a memfd that goes with the process; the stores map their own tables),
// handed (two memfds that a service manager keeps for the next daemon), named (two files in a
// directory of tmpfs or hugetlbfs). Owned by DataDaemon; the stores use it. Thread: control, but
// for the ranges of shard(), which are their stores'.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/pool/pool_directory.h"
#include "daemon/store/pool/pool_header.h"
#include "daemon/store/pool/shard_memory.h"
#include "daemon/store/space/arena.h"
#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::store {

enum class PoolKind : std::uint8_t { private_, handed, named };
const char* pool_kind_name(PoolKind kind) noexcept;

// What becomes of contents that an earlier daemon left.
enum class PoolRestart : std::uint8_t {
  keep,     // used when they fit, else dropped, with the reason
  fresh,    // dropped
  require,  // used; contents that do not fit are an error, and stay as they are
};

struct PoolConfig {
  PoolKind kind = PoolKind::private_;
  PoolRestart restart = PoolRestart::keep;
  std::string path;  // named: the directory
  std::uint32_t shards = 1;
  std::uint64_t payload_bytes = 0;    // of a shard: whole pages
  std::uint64_t table_bytes = 0;      // of a shard: whole pages; unused by the private kind
  bool hugepages = false;             // ask for them; a directory decides by itself
  bool hugepages_only = false;        // kept contents in normal pages are refused
  int numa_node = -1;                 // of all memory; -1: any
  std::vector<int> shard_nodes;       // see ArenaConfig::part_nodes
  std::string owner;                  // see PoolShape
  std::uint64_t hash_seed = 0;        // 0: whatever the contents have
  std::uint64_t fresh_hash_seed = 0;  // for new memory
  std::uint32_t take_threads = 1;     // a named pool takes its memory on so many
  // A named pool takes its memory: so many bytes are there. May be empty.
  std::function<void(std::uint64_t taken_bytes)> on_taken;
};

// A file that is kept outside of the process, by its name there.
struct PoolFile {
  std::string name;
  ipc::UniqueFd fd;
};
// How many of the handed kind there are, and what their names begin with.
inline constexpr std::uint64_t kPoolFiles = 2;
inline constexpr const char* kPoolFilePrefix = "simm-pool-";

// Takes room for the tables of a named pool from its file system, as they grow.
class PoolTableBacking final : public TableBacking {
public:
  PoolTableBacking(ipc::UniqueFd file, std::span<std::byte> bytes, std::uint64_t page_bytes)
      : file_(std::move(file)), bytes_(bytes), page_bytes_(page_bytes) {}
  std::size_t back(const std::byte* at, std::size_t bytes) noexcept override;

private:
  const ipc::UniqueFd file_;
  const std::span<std::byte> bytes_;
  const std::uint64_t page_bytes_;
};

class PoolMemory {
public:
  // `handed`: what the service manager has kept. The errors are for people.
  static Expected<std::unique_ptr<PoolMemory>> create(const PoolConfig& config,
                                                      std::vector<PoolFile> handed);
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  [[nodiscard]] const Arena& payload() const noexcept { return *payload_; }
  // The table of the private kind is empty.
  [[nodiscard]] ShardMemory shard(std::uint32_t index, base::TimeNs now_ns) const noexcept;
  [[nodiscard]] std::uint64_t payload_bytes() const noexcept {
    return config_.payload_bytes * config_.shards;
  }

  [[nodiscard]] PoolKind kind() const noexcept { return config_.kind; }
  // Whether a daemon that comes after this one could find its objects here.
  [[nodiscard]] bool outlives_the_process() const noexcept {
    return config_.kind != PoolKind::private_ && config_.restart != PoolRestart::fresh;
  }
  [[nodiscard]] bool is_kept() const noexcept { return contents_ == Contents::kept; }
  // Why contents that there were are not used; empty: there were none, or they are used.
  [[nodiscard]] const std::string& why_fresh() const noexcept { return why_fresh_; }
  [[nodiscard]] std::uint64_t hash_seed() const noexcept { return hash_seed_; }
  // How far the daemon before this one came; of fresh memory nothing.
  [[nodiscard]] const PoolLife& last_life() const noexcept { return last_life_; }

  // New files for the service manager to keep under their names, once.
  [[nodiscard]] std::vector<PoolFile> take_files();

  // This daemon's life, on its memory from now on. Without effect on the private kind.
  void begin_life(std::uint64_t incarnation_high, std::uint64_t incarnation_low) noexcept;
  // Before objects are stored under that map.
  void note_map(base::Epoch epoch, std::uint64_t lineage_high, std::uint64_t lineage_low) noexcept;
  // Nobody uses these contents any more; this daemon may until it ends.
  void discard() noexcept;
  // In good order: no shard will be written to any more.
  void end_life() noexcept;

private:
  explicit PoolMemory(const PoolConfig& config) : config_(config) {}
  [[nodiscard]] Outcome make_private();
  [[nodiscard]] Outcome take_handed(std::vector<PoolFile> handed);
  [[nodiscard]] Outcome open_named();
  [[nodiscard]] Outcome create_handed();
  [[nodiscard]] Outcome create_named();
  // The payload of a start that was killed while it took memory; not valid: there is none.
  [[nodiscard]] ipc::UniqueFd find_begun() const;
  // `begun` as find_begun() says.
  [[nodiscard]] Outcome make_named(ipc::UniqueFd begun);
  void drop_named() noexcept;
  [[nodiscard]] Outcome use(ipc::UniqueFd payload, ipc::UniqueFd table, bool hugepages);
  [[nodiscard]] Outcome hold(Arena payload, Arena table);
  [[nodiscard]] Outcome refuse(const Error& why);
  [[nodiscard]] PoolShape shape() const;
  [[nodiscard]] ArenaConfig arena_config(std::uint64_t bytes, bool hugepages) const;
  [[nodiscard]] ArenaConfig payload_config(std::uint64_t bytes, bool hugepages) const;
  [[nodiscard]] std::uint64_t payload_file_bytes() const noexcept;
  [[nodiscard]] std::uint64_t table_file_bytes() const noexcept;
  void begin_fresh() noexcept;
  void write_life() noexcept;

  const PoolConfig config_;
  std::unique_ptr<PoolDirectory> directory_;  // named
  std::unique_ptr<Arena> payload_;
  std::unique_ptr<Arena> table_;               // null: private
  std::unique_ptr<PoolTableBacking> backing_;  // named
  Contents contents_ = Contents::fresh;
  std::string why_fresh_;
  std::uint64_t hash_seed_ = 0;
  PoolLife last_life_;
  PoolLife life_;
  std::vector<PoolFile> files_;
};

}  // namespace simm::store
