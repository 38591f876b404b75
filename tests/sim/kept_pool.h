// KeptPool: the memory of a storage daemon, which may outlive its process: what PoolMemory is to a
// daemon, without its files. A process that is killed leaves it as it is at that moment; the next
// one of the same name has the same incarnation, and recovers what the memory proves.
// Owned by its SimServer and the Cluster. Thread: the one simulated thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/cluster/cluster_member.h"
#include "daemon/store/pool/shard_memory.h"
#include "daemon/store/space/reserved_memory.h"
#include "tests/sim/dice.h"
#include "tests/sim/scenario.h"

namespace simm::sim {

class KeptPool {
public:
  // `config`: of the daemon.
  KeptPool(const Scenario& scenario, const cluster::MemberConfig& config);

  [[nodiscard]] const cluster::MemberConfig& config() const { return config_; }
  // Where the store of that shard keeps its objects, at that time of its clock.
  [[nodiscard]] store::ShardMemory memory(std::uint16_t shard, base::TimeNs now_ns);
  // How far ahead the clock of that shard's host is: drawn once.
  [[nodiscard]] base::TimeNs ahead_ns(std::uint16_t shard, Dice& dice);

  // The process is killed. What the simulation does to take it to pieces does not count.
  void freeze();
  // There are contents for another process.
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }
  // The next process begins with them.
  void thaw();
  void discard() { is_frozen_ = false; }
  // Of what one shard has frozen some bytes of each object go wrong.
  void damage(Dice& dice);

  // Of the newest map of all processes.
  [[nodiscard]] base::Epoch epoch() const { return epoch_; }
  // This process has begun with the contents of another one.
  [[nodiscard]] bool is_kept() const { return is_kept_; }
  // What DataDaemon::take_map() does. False: these objects can not be shown to be the latest ones.
  [[nodiscard]] bool takes(const cluster::SlotMap& map);

private:
  struct Shard {
    std::vector<std::byte> payload;
    std::optional<store::ReservedMemory> table;  // none: pools go with their processes
    std::vector<std::byte> frozen_payload;
    std::vector<std::byte> frozen_table;
    std::optional<base::TimeNs> ahead_ns;
  };

  const cluster::MemberConfig config_;
  std::vector<Shard> shards_;
  bool is_frozen_ = false;
  bool is_kept_ = false;   // this process has begun with contents
  bool has_map_ = false;   // this process has had one
  base::Epoch epoch_ = 0;  // of the newest map of all processes
  cluster::Lineage lineage_;
};

}  // namespace simm::sim
