#include "tests/sim/kept_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/store/store.h"
#include "simm/check.h"

namespace simm::sim {

KeptPool::KeptPool(const Scenario& scenario, const cluster::MemberConfig& config)
    : config_(config) {
  for (std::uint16_t shard = 0; shard < config.shards; ++shard) {
    Shard& added = shards_.emplace_back();
    added.payload.resize(scenario.arena_bytes);
    if (!scenario.keeps_pools) continue;
    auto table = store::ReservedMemory::map(
        store::Store::table_bytes_for(scenario.store, scenario.arena_bytes));
    SIMM_CHECK(table.has_value());
    added.table.emplace(std::move(table).value());
  }
}

store::ShardMemory KeptPool::memory(std::uint16_t shard, base::TimeNs now_ns) {
  Shard& of = shards_[shard];
  store::ShardMemory memory;
  memory.payload = of.payload;
  if (of.table) memory.table = {of.table->data(), of.table->bytes()};
  memory.contents = is_kept_ ? store::Contents::kept : store::Contents::fresh;
  memory.boot = 1;
  memory.now_ns = now_ns;
  return memory;
}

base::TimeNs KeptPool::ahead_ns(std::uint16_t shard, Dice& dice) {
  Shard& of = shards_[shard];
  if (!of.ahead_ns) of.ahead_ns = dice.between(0, 500) * kSecond;
  return *of.ahead_ns;
}

void KeptPool::freeze() {
  for (Shard& shard : shards_) {
    shard.frozen_payload = shard.payload;
    shard.frozen_table.assign(shard.table->data(), shard.table->data() + shard.table->bytes());
  }
  is_frozen_ = true;
}

void KeptPool::thaw() {
  for (Shard& shard : shards_) {
    std::copy(shard.frozen_payload.begin(), shard.frozen_payload.end(), shard.payload.begin());
    std::copy(shard.frozen_table.begin(), shard.frozen_table.end(), shard.table->data());
  }
  is_frozen_ = false;
  is_kept_ = true;
  has_map_ = false;
}

void KeptPool::damage(Dice& dice) {
  constexpr std::size_t kStepBytes = 256;
  std::vector<std::byte>& bytes = shards_[dice.between(0, shards_.size() - 1)].frozen_payload;
  for (std::size_t at = dice.between(0, kStepBytes - 1); at < bytes.size(); at += kStepBytes) {
    bytes[at] ^= std::byte{1};
  }
}

bool KeptPool::takes(const cluster::SlotMap& map) {
  const bool is_first = !std::exchange(has_map_, true);
  const bool is_strange = is_kept_ && is_first && map.is_of_another_life(lineage_, epoch_);
  if (is_strange || map.epoch() < epoch_) return false;
  epoch_ = map.epoch();
  lineage_ = map.life().lineage;
  return true;
}

}  // namespace simm::sim
